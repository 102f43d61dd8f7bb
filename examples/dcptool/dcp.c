/* dcp.c - the library, in a file of its own, so that a change of a command does not compile it again. */
#define DCP_IMPLEMENTATION
#include "../../dcp.h"
