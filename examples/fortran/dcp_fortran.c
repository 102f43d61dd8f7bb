/* dcp_fortran.c - what dcp.f90 links with: the implementation of dcp.h, and the way from a communicator of Fortran to
 * one of C.
 *
 *     cc -O2 -c dcp_fortran.c -I../..                      or, for MPI: mpicc -O2 -DDCP_MPI -c dcp_fortran.c -I../.. */
#define DCP_IMPLEMENTATION
#include "dcp.h"

int dcp_fortran_mpi_open(int comm, dcp_coordinator **out, dcp_error *err);
#ifdef DCP_MPI
int dcp_fortran_mpi_open(int comm, dcp_coordinator **out, dcp_error *err) {
    return (int)dcp_mpi_open(MPI_Comm_f2c(comm), out, err);
}
#else
int dcp_fortran_mpi_open(int comm, dcp_coordinator **out, dcp_error *err) {
    const dcp_error no = {DCP_E_UNSUPPORTED, 0, 0, 0, "compile dcp_fortran.c with mpicc and -DDCP_MPI"};
    (void)comm;
    *out = NULL;
    *err = no;
    return (int)no.status;
}
#endif
