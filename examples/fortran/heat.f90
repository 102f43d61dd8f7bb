! heat.f90 - a heat equation over MPI that goes on, from its checkpoint, on another number of ranks.
!
! Each rank has some columns of the field, with a halo column on both sides; it saves and loads its own columns in
! place, as a piece of the whole. Every cell is computed alike whoever computes it: the field must be that of a run that
! never stopped, bit for bit. README.md beside it says how to build and run it.
program heat
   use, intrinsic :: iso_c_binding
   use mpi_f08
   use dcp
   implicit none
   integer, parameter :: nx = 48, ny = 60, steps_a_run = 100, save_every = 50
   character(*), parameter :: directory = 'checkpoints/heat'
   real(c_double), allocatable, target :: field(:, :)
   real(c_double) :: reference(nx, 0:ny + 1)
   integer(c_int64_t), target :: step
   integer :: rank, ranks, low, high, columns, i
   type(dcp_state) :: state
   type(dcp_error) :: err
   type(c_ptr) :: coordinator
   logical :: wrong, any_wrong
   character(20) :: name

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   low = ny * rank / ranks + 1
   high = ny * (rank + 1) / ranks
   columns = high - low + 1
   allocate (field(nx, 0:columns + 1))
   call begin(field, low - 1)
   step = 0

   call dcp_mpi_open(MPI_COMM_WORLD%MPI_VAL, coordinator, err)
   call check(err)
   call state%add('temperature', field(:, 1:columns), whole=[nx, ny], first=[1, low])
   call state%add('step', step, replicated=.true.)
   call dcp_load_latest(state, directory, err, series='step_', coordinator=coordinator)
   if (err%status /= dcp_e_not_found) call check(err)
   if (step > 0 .and. rank == 0) print '(a, i0, a, i0, a)', 'resumed at step ', step, ' on ', ranks, ' ranks'

   do i = 1, steps_a_run
      call exchange()
      call advance(field)
      step = step + 1
      if (mod(step, int(save_every, c_int64_t)) /= 0) cycle
      write (name, '(a, i6.6)') '/step_', step
      call dcp_save(state, directory // trim(name), err, step=step, keep_last=2, coordinator=coordinator)
      call check(err)
   end do

   call begin(reference, 0)
   do i = 1, int(step)
      call advance(reference)
   end do
   wrong = any(field(:, 1:columns) /= reference(:, low:high))
   call MPI_Allreduce(wrong, any_wrong, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
   if (any_wrong) call MPI_Abort(MPI_COMM_WORLD, 1)
   if (rank == 0) print '(a, i0, a)', 'proved: step ', step, ' is bit for bit that of a run that never stopped'
   call dcp_close(coordinator)
   call MPI_Finalize()

contains
   subroutine begin(f, before)                              ! `before`: columns to the left of f(:, 1)
      real(c_double), intent(out) :: f(:, 0:)
      integer, intent(in) :: before
      integer :: x, y
      f = 0
      do y = 1, ubound(f, 2) - 1
         do x = 1, nx
            f(x, y) = real(mod(x * 7 + (y + before) * 13, 100), c_double)
         end do
      end do
   end subroutine
   subroutine advance(f)
      real(c_double), intent(inout) :: f(:, 0:)
      real(c_double) :: old(size(f, 1), 0:ubound(f, 2))
      integer :: x, y
      old = f
      do y = 1, ubound(f, 2) - 1
         do x = 2, nx - 1
            f(x, y) = old(x, y) + 0.1_c_double * (old(x - 1, y) + old(x + 1, y) + old(x, y - 1) + old(x, y + 1) &
               - 4 * old(x, y))
         end do
      end do
   end subroutine
   subroutine exchange()
      integer :: left, right
      left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
      right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
      call MPI_Sendrecv(field(:, 1), nx, MPI_DOUBLE_PRECISION, left, 0, field(:, columns + 1), nx, &
         MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call MPI_Sendrecv(field(:, columns), nx, MPI_DOUBLE_PRECISION, right, 1, field(:, 0), nx, &
         MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   end subroutine
   subroutine check(e)
      type(dcp_error), intent(in) :: e
      if (e%status == dcp_ok) return
      print '(a)', dcp_message(e)
      call MPI_Abort(MPI_COMM_WORLD, 1)
   end subroutine
end program
