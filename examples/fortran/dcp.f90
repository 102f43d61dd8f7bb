! dcp.f90 - dcp.h from Fortran 2018: arrays of rank 0 to 8, pieces of arrays over MPI ranks, errors as values.
!
!     type(dcp_state) :: state
!     type(dcp_error) :: err
!     real(c_double), target :: field(100, 50)
!     call state%add('field', field)                       ! refers to the array, which outlives it
!     call dcp_save(state, 'run/step_1', err, step=1_c_int64_t)
!     if (err%status /= dcp_ok) stop dcp_message(err)
!     call dcp_load(state, 'run/step_1', err)
!
! Arrays: real(4, 8), integer(1, 2, 4, 8), complex(4, 8), logical(c_bool); contiguous, and with the target attribute. A
! section such as field(:, 2:9) is, if it has no gaps. Allocate an array before it is added.
!
! Order: arrays of dcp.h are row-major, those of Fortran column-major. Nothing is transposed: field(100, 50) is stored
! as it lies in memory, with the shape [50, 100], and C and numpy read it so. `whole` and `first`, of a piece, are in
! the order of Fortran, and `first` counts from 1.
!
! Link with dcp_fortran.c, which has the implementation, compiled with -DDCP_MPI for dcp_mpi_open.
module dcp
   use, intrinsic :: iso_c_binding
   implicit none
   private
   public :: dcp_save, dcp_load, dcp_load_latest, dcp_message, dcp_mpi_open, dcp_close

   integer, parameter, public :: dcp_ok = 0, dcp_e_invalid = 2, dcp_e_io = 4, dcp_e_not_found = 6, dcp_e_exists = 7, &
      dcp_e_checksum = 10, dcp_e_mismatch = 12, dcp_e_incomplete = 13, dcp_e_unsupported = 19

   ! ---- structs of dcp.h, member by member; what Fortran does not use has the size that it has there ----
   type, bind(c), public :: dcp_error
      integer(c_int) :: status = 0, sys = 0, rank = 0, is_transient = 0
      character(kind=c_char) :: message(512) = c_null_char
   end type
   type, bind(c), public :: dcp_io
      type(c_ptr) :: storage = c_null_ptr, coordinator = c_null_ptr
      integer(c_size_t) :: memory_budget = 0
      integer(c_int) :: threads = 0, timeout_ms = 0
      integer(c_int64_t) :: deadline_ms = 0
      integer(c_int) :: retry(3) = 0
      type(c_ptr) :: cancel = c_null_ptr
      type(c_funptr) :: progress = c_null_funptr
      type(c_ptr) :: progress_user = c_null_ptr
      type(c_funptr) :: log = c_null_funptr
      type(c_ptr) :: log_user = c_null_ptr
   end type
   type, bind(c), public :: dcp_tensor
      type(c_ptr) :: name = c_null_ptr
      integer(c_int) :: dtype = 0, ndim = 0
      integer(c_int64_t) :: shape(8) = 0, global_shape(8) = 0, global_offset(8) = 0, stride(8) = 0
      integer(c_int) :: placement = 0
      type(c_ptr) :: data = c_null_ptr, device = c_null_ptr
      integer(c_int) :: role = 0
      type(c_ptr) :: tier = c_null_ptr
      integer(c_int64_t) :: expert_key(3) = 0
      integer(c_int) :: optional = 0, status = 0
      integer(c_int64_t) :: version = 0
      type(c_ptr) :: extra = c_null_ptr, stored_name = c_null_ptr
      type(c_funptr) :: allocate = c_null_funptr
      type(c_ptr) :: allocate_user = c_null_ptr
      integer(c_int) :: convert = 0
   end type
   type, bind(c), public :: dcp_save_desc
      type(c_ptr) :: path = c_null_ptr, tensors = c_null_ptr
      integer(c_size_t) :: tensor_count = 0
      integer(c_int64_t) :: step = 0
      integer(c_int) :: keep_last = 0
      integer(c_int64_t) :: keep_every = 0
      type(c_ptr) :: verifier = c_null_ptr
      integer(c_int) :: layout = 0, checksum = 0
      integer(c_size_t) :: alignment = 0, block_size = 0
      integer(c_int) :: overwrite = 0, allow_holes = 0, unique_names = 0
      type(c_ptr) :: training = c_null_ptr, sharding = c_null_ptr, fields = c_null_ptr
      integer(c_size_t) :: field_count = 0
      type(c_ptr) :: model_id = c_null_ptr, tiers = c_null_ptr
      integer(c_size_t) :: tier_count = 0
      integer(c_int) :: yaml = 0
      type(c_ptr) :: signer = c_null_ptr, report = c_null_ptr
      type(dcp_io) :: io
      type(c_ptr) :: router_seeds = c_null_ptr
      integer(c_size_t) :: router_seed_count = 0
      type(c_ptr) :: extra = c_null_ptr, optim_extra = c_null_ptr, router_extra = c_null_ptr, &
         tier_extras = c_null_ptr, router_seed_extras = c_null_ptr
   end type
   type, bind(c), public :: dcp_load_desc
      type(c_ptr) :: path = c_null_ptr, tensors = c_null_ptr
      integer(c_size_t) :: tensor_count = 0
      integer(c_int) :: exact = 0, verify = 0
      type(c_ptr) :: verifier = c_null_ptr
      integer(c_int64_t) :: minimum_step = 0
      integer(c_int) :: share_reads = 0
      type(c_ptr) :: metadata = c_null_ptr
      type(dcp_io) :: io
      type(c_ptr) :: sources = c_null_ptr
      integer(c_size_t) :: source_count = 0
      type(c_ptr) :: report = c_null_ptr
   end type
   type, bind(c), public :: dcp_load_latest_desc
      type(c_ptr) :: directory = c_null_ptr, series = c_null_ptr, tensors = c_null_ptr
      integer(c_size_t) :: tensor_count = 0
      integer(c_int) :: exact = 0, verify = 0
      type(c_ptr) :: verifier = c_null_ptr
      integer(c_int64_t) :: minimum_step = 0
      integer(c_int) :: share_reads = 0
      type(c_ptr) :: metadata = c_null_ptr
      type(dcp_io) :: io
      type(c_ptr) :: sources = c_null_ptr
      integer(c_size_t) :: source_count = 0
      type(c_ptr) :: report = c_null_ptr
   end type

   integer, parameter :: longest = 1100                     ! bytes of a name; dcp.h takes 1,024
   type :: entry
      character(kind=c_char) :: name(longest) = c_null_char
      type(dcp_tensor) :: tensor
      character(:), allocatable :: wrong
   end type
   ! A list of arrays, which saves and loads take.
   type, public :: dcp_state
      type(entry), allocatable, private :: entries(:)
   contains
      procedure, private :: add_r4, add_r8, add_i1, add_i2, add_i4, add_i8, add_l1, add_c4, add_c8
      generic, public :: add => add_r4, add_r8, add_i1, add_i2, add_i4, add_i8, add_l1, add_c4, add_c8
   end type

   interface
      integer(c_int) function c_save(desc, err) bind(c, name='dcp_save')
         import
         type(dcp_save_desc), intent(in) :: desc
         type(dcp_error), intent(inout) :: err
      end function
      integer(c_int) function c_load(desc, err) bind(c, name='dcp_load')
         import
         type(dcp_load_desc), intent(in) :: desc
         type(dcp_error), intent(inout) :: err
      end function
      integer(c_int) function c_load_latest(desc, err) bind(c, name='dcp_load_latest')
         import
         type(dcp_load_latest_desc), intent(in) :: desc
         type(dcp_error), intent(inout) :: err
      end function
      integer(c_int) function c_mpi_open(comm, coordinator, err) bind(c, name='dcp_fortran_mpi_open')
         import
         integer(c_int), value :: comm
         type(c_ptr), intent(out) :: coordinator
         type(dcp_error), intent(inout) :: err
      end function
      subroutine c_close(coordinator) bind(c, name='dcp_coordinator_close')
         import
         type(c_ptr), value :: coordinator
      end subroutine
   end interface

contains
   subroutine add_r4(self, name, x, whole, first, replicated)
      real(c_float), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 1, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_r8(self, name, x, whole, first, replicated)
      real(c_double), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 2, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_i1(self, name, x, whole, first, replicated)
      integer(c_int8_t), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 10, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_i2(self, name, x, whole, first, replicated)
      integer(c_int16_t), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 9, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_i4(self, name, x, whole, first, replicated)
      integer(c_int32_t), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 8, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_i8(self, name, x, whole, first, replicated)
      integer(c_int64_t), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 7, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_l1(self, name, x, whole, first, replicated)
      logical(c_bool), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 15, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_c4(self, name, x, whole, first, replicated)
      complex(c_float_complex), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 16, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   subroutine add_c8(self, name, x, whole, first, replicated)
      complex(c_double_complex), target :: x(..)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      call put(self, name, 17, c_loc(x), shape(x, kind=c_int64_t), is_contiguous(x), whole, first, replicated)
   end subroutine

   ! ndim -1, which every call refuses, where something is wrong here.
   subroutine put(self, name, dtype, data, extents, contiguous, whole, first, replicated)
      class(dcp_state), intent(inout) :: self
      character(*), intent(in) :: name
      integer, intent(in) :: dtype
      type(c_ptr), intent(in) :: data
      integer(c_int64_t), intent(in) :: extents(:)
      logical, intent(in) :: contiguous
      integer, intent(in), optional :: whole(:), first(:)
      logical, intent(in), optional :: replicated
      type(entry) :: e
      integer :: n
      n = min(size(extents), 8)
      if (size(extents) > 8) e%wrong = name // ': more than 8 dimensions'
      e%name = c_text(name)
      e%tensor%dtype = dtype
      e%tensor%data = data
      e%tensor%ndim = n
      e%tensor%shape(1:n) = extents(n:1:-1)
      if (present(replicated)) e%tensor%placement = merge(1, 0, replicated)
      if (present(whole) .and. present(first)) then
         if (size(whole) /= n .or. size(first) /= n) then
            e%wrong = name // ': whole and first need as many entries as the array has dimensions'
         else
            e%tensor%global_shape(1:n) = whole(n:1:-1)
            e%tensor%global_offset(1:n) = first(n:1:-1) - 1
         end if
      else if (present(whole) .or. present(first)) then
         e%wrong = name // ': a piece needs both whole and first'
      end if
      if (.not. contiguous) e%wrong = name // ': the array has gaps in memory'
      if (allocated(e%wrong)) e%tensor%ndim = -1
      if (.not. allocated(self%entries)) allocate (self%entries(0))
      self%entries = [self%entries, e]
   end subroutine

   function c_text(text) result(bytes)
      character(*), intent(in) :: text
      character(kind=c_char) :: bytes(longest)
      integer :: i
      bytes = c_null_char
      do i = 1, min(len(text), longest - 1)
         bytes(i) = text(i:i)
      end do
   end function

   ! The tensors of a state; their names are in `self`.
   subroutine list(self, tensors)
      type(dcp_state), intent(in), target :: self
      type(dcp_tensor), allocatable, intent(out) :: tensors(:)
      integer :: i, n
      n = 0
      if (allocated(self%entries)) n = size(self%entries)
      allocate (tensors(n))
      do i = 1, n
         tensors(i) = self%entries(i)%tensor
         tensors(i)%name = c_loc(self%entries(i)%name)
      end do
   end subroutine

   ! What is wrong here is said instead of what the library says of it.
   subroutine finish(self, err)
      type(dcp_state), intent(in) :: self
      type(dcp_error), intent(inout) :: err
      integer :: i, n
      if (.not. allocated(self%entries) .or. err%status == dcp_ok) return
      do i = 1, size(self%entries)
         if (.not. allocated(self%entries(i)%wrong)) cycle
         err%message = c_null_char
         n = min(len(self%entries(i)%wrong), size(err%message) - 1)
         err%message(1:n) = transfer(self%entries(i)%wrong(1:n), err%message(1:n))
         return
      end do
   end subroutine

   ! The existing checkpoint of that path is replaced if `overwrite`. keep_last, keep_every: see dcp_save_desc.
   subroutine dcp_save(state, path, err, step, keep_last, keep_every, overwrite, coordinator)
      type(dcp_state), intent(in), target :: state
      character(*), intent(in) :: path
      type(dcp_error), intent(out) :: err
      integer(c_int64_t), intent(in), optional :: step, keep_every
      integer, intent(in), optional :: keep_last
      logical, intent(in), optional :: overwrite
      type(c_ptr), intent(in), optional :: coordinator
      type(dcp_save_desc) :: desc
      type(dcp_tensor), allocatable, target :: tensors(:)
      character(kind=c_char), allocatable, target :: name(:)
      integer(c_int) :: status
      call list(state, tensors)
      call set_text(name, path)
      desc%path = c_loc(name)
      desc%tensors = c_loc(tensors)
      desc%tensor_count = size(tensors, kind=c_size_t)
      if (present(step)) desc%step = step
      if (present(keep_last)) desc%keep_last = keep_last
      if (present(keep_every)) desc%keep_every = keep_every
      if (present(overwrite)) desc%overwrite = merge(1, 0, overwrite)
      if (present(coordinator)) desc%io%coordinator = coordinator
      status = c_save(desc, err)
      call finish(state, err)
   end subroutine

   subroutine dcp_load(state, path, err, coordinator)
      type(dcp_state), intent(in), target :: state
      character(*), intent(in) :: path
      type(dcp_error), intent(out) :: err
      type(c_ptr), intent(in), optional :: coordinator
      type(dcp_load_desc) :: desc
      type(dcp_tensor), allocatable, target :: tensors(:)
      character(kind=c_char), allocatable, target :: name(:)
      integer(c_int) :: status
      call list(state, tensors)
      call set_text(name, path)
      desc%path = c_loc(name)
      desc%tensors = c_loc(tensors)
      desc%tensor_count = size(tensors, kind=c_size_t)
      if (present(coordinator)) desc%io%coordinator = coordinator
      status = c_load(desc, err)
      call finish(state, err)
   end subroutine

   ! The newest checkpoint of a directory that is intact; dcp_e_not_found: there is none, this is the first start.
   subroutine dcp_load_latest(state, directory, err, series, coordinator)
      type(dcp_state), intent(in), target :: state
      character(*), intent(in) :: directory
      type(dcp_error), intent(out) :: err
      character(*), intent(in), optional :: series
      type(c_ptr), intent(in), optional :: coordinator
      type(dcp_load_latest_desc) :: desc
      type(dcp_tensor), allocatable, target :: tensors(:)
      character(kind=c_char), allocatable, target :: name(:), of_series(:)
      integer(c_int) :: status
      call list(state, tensors)
      call set_text(name, directory)
      desc%directory = c_loc(name)
      if (present(series)) then
         call set_text(of_series, series)
         desc%series = c_loc(of_series)
      end if
      desc%tensors = c_loc(tensors)
      desc%tensor_count = size(tensors, kind=c_size_t)
      if (present(coordinator)) desc%io%coordinator = coordinator
      status = c_load_latest(desc, err)
      call finish(state, err)
   end subroutine

   subroutine set_text(bytes, text)
      character(kind=c_char), allocatable, intent(out) :: bytes(:)
      character(*), intent(in) :: text
      integer :: i
      allocate (bytes(len(text) + 1))
      do i = 1, len(text)
         bytes(i) = text(i:i)
      end do
      bytes(len(text) + 1) = c_null_char
   end subroutine

   function dcp_message(err) result(text)
      type(dcp_error), intent(in) :: err
      character(:), allocatable :: text
      integer :: i
      text = ''
      do i = 1, size(err%message)
         if (err%message(i) == c_null_char) exit
         text = text // err%message(i)
      end do
   end function

   ! `comm` is comm%MPI_VAL of mpi_f08, or the integer of the older modules. Collective; dcp_close before MPI_Finalize.
   subroutine dcp_mpi_open(comm, coordinator, err)
      integer, intent(in) :: comm
      type(c_ptr), intent(out) :: coordinator
      type(dcp_error), intent(out) :: err
      integer(c_int) :: status
      status = c_mpi_open(int(comm, c_int), coordinator, err)
   end subroutine
   subroutine dcp_close(coordinator)
      type(c_ptr), intent(inout) :: coordinator
      call c_close(coordinator)
      coordinator = c_null_ptr
   end subroutine
end module
