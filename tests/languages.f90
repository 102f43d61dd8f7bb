! languages.f90 - what examples/fortran/dcp.f90 promises, as a program: types and ranks, pieces, what is refused; then a
! line for each member of its structs, "struct member offset size", which test_languages.sh compares with dcp.h.
program languages
   use, intrinsic :: iso_c_binding
   use dcp
   implicit none
   integer :: failures = 0
   character(40) :: struct                                  ! whose members are printed
   integer(c_intptr_t) :: base
   call types()
   call ranks_of_arrays()
   call pieces()
   call refused()
   if (failures > 0) stop 1
   call layouts()
contains
   subroutine expect(holds, what)
      logical, intent(in) :: holds
      character(*), intent(in) :: what
      if (holds) return
      failures = failures + 1
      print '(2a)', 'fails: ', what
   end subroutine

   subroutine types()
      real(c_float), target :: r4(2) = [1.5, -2.5]
      real(c_double), target :: r8(2) = [1.5d0, -1d300]
      integer(c_int8_t), target :: i1(2) = [-127_c_int8_t, 127_c_int8_t]
      integer(c_int16_t), target :: i2(2) = [-3_c_int16_t, 300_c_int16_t]
      integer(c_int32_t), target :: i4(2) = [-3, 70000]
      integer(c_int64_t), target :: i8(2) = [-3_c_int64_t, 5000000000_c_int64_t]
      logical(c_bool), target :: l1(2) = [.true._c_bool, .false._c_bool]
      complex(c_float_complex), target :: c4(1) = [(1.0, -2.0)]
      complex(c_double_complex), target :: c8(1) = [(1d0, -2d200)]
      type(dcp_state) :: state
      type(dcp_error) :: err
      call state%add('r4', r4); call state%add('r8', r8); call state%add('i1', i1); call state%add('i2', i2)
      call state%add('i4', i4); call state%add('i8', i8); call state%add('l1', l1); call state%add('c4', c4)
      call state%add('c8', c8)
      call dcp_save(state, 'types/step_7', err, step=7_c_int64_t, keep_last=1)
      call expect(err%status == dcp_ok, 'save of all types: ' // dcp_message(err))
      r4 = 0; r8 = 0; i1 = 0; i2 = 0; i4 = 0; i8 = 0; l1 = .false.; c4 = 0; c8 = 0
      call dcp_load_latest(state, 'types', err, series='step_')
      call expect(err%status == dcp_ok, 'load of all types: ' // dcp_message(err))
      call expect(all(r4 == [1.5, -2.5]) .and. all(r8 == [1.5d0, -1d300]), 'reals')
      call expect(all(i1 == [-127, 127]) .and. all(i2 == [-3, 300]) .and. all(i4 == [-3, 70000]), 'integers')
      call expect(all(i8 == [-3_c_int64_t, 5000000000_c_int64_t]) .and. l1(1) .and. .not. l1(2), 'int64, logical')
      call expect(c4(1) == (1.0, -2.0) .and. c8(1) == (1d0, -2d200), 'complex')
   end subroutine

   subroutine ranks_of_arrays()
      real(c_double), target :: a0, a1(3), a2(3, 2), a3(2, 3, 4), a4(2, 1, 3, 2), b0, b1(3), b2(3, 2), b3(2, 3, 4)
      real(c_double), target :: b4(2, 1, 3, 2), transposed(2, 3)
      type(dcp_state) :: out, in, other
      type(dcp_error) :: err
      call random_number(a0); call random_number(a1); call random_number(a2); call random_number(a3)
      call random_number(a4)
      call out%add('a0', a0); call out%add('a1', a1); call out%add('a2', a2); call out%add('a3', a3)
      call out%add('a4', a4)
      call in%add('a0', b0); call in%add('a1', b1); call in%add('a2', b2); call in%add('a3', b3); call in%add('a4', b4)
      call dcp_save(out, 'ranks', err)
      call expect(err%status == dcp_ok, 'save of all ranks: ' // dcp_message(err))
      call dcp_load(in, 'ranks', err)
      call expect(err%status == dcp_ok, 'load of all ranks: ' // dcp_message(err))
      call expect(a0 == b0 .and. all(a1 == b1) .and. all(a2 == b2) .and. all(a3 == b3) .and. all(a4 == b4), 'ranks')
      call other%add('a2', transposed)
      call dcp_load(other, 'ranks', err)
      call expect(err%status == dcp_e_mismatch, 'another shape is a mismatch')
   end subroutine

   subroutine pieces()                                      ! a(4, 6) saved whole; columns 3 and 4 of rows 2 to 4 loaded
      real(c_float), target :: whole(4, 6), part(3, 2)
      type(dcp_state) :: out, in
      type(dcp_error) :: err
      integer :: i
      whole = reshape([(real(i), i=1, 24)], [4, 6])
      call out%add('field', whole)
      call in%add('field', part, whole=[4, 6], first=[2, 3])
      call dcp_save(out, 'pieces', err)
      call dcp_load(in, 'pieces', err)
      call expect(err%status == dcp_ok, 'load of a piece: ' // dcp_message(err))
      call expect(all(part == whole(2:4, 3:4)), 'a piece')
      call dcp_save(out, 'pieces', err)
      call expect(err%status == dcp_e_exists, 'it exists')
      call dcp_save(out, 'pieces', err, overwrite=.true.)
      call expect(err%status == dcp_ok, 'it is replaced')
   end subroutine

   subroutine refused()
      real(c_double), target :: a(4, 6)
      type(dcp_state) :: gaps, short
      type(dcp_error) :: err
      type(c_ptr) :: coordinator
      a = 0
      call gaps%add('rows', a(1:2, :))
      call dcp_save(gaps, 'refused', err)
      call expect(err%status == dcp_e_invalid .and. index(dcp_message(err), 'rows: the array has gaps') == 1, 'gaps')
      call short%add('short', a, whole=[8], first=[1])
      call dcp_save(short, 'refused', err)
      call expect(err%status == dcp_e_invalid .and. index(dcp_message(err), 'short: whole and first') == 1, 'whole')
      call dcp_load(short, 'not there', err)
      call expect(err%status /= dcp_ok, 'not there')
      call dcp_mpi_open(0, coordinator, err)
      call expect(err%status == dcp_e_unsupported .and. .not. c_associated(coordinator), 'no MPI')
   end subroutine

   subroutine begin(name, at)
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: at
      struct = name
      base = transfer(at, base)
   end subroutine
   subroutine line(member, at, size)
      character(*), intent(in) :: member
      type(c_ptr), intent(in) :: at
      integer(c_size_t), intent(in) :: size
      print '(a, 1x, a, 1x, i0, 1x, i0)', trim(struct), member, transfer(at, base) - base, size
   end subroutine
   subroutine layouts()
      type(dcp_error), target :: e
      type(dcp_io), target :: io
      type(dcp_tensor), target :: t
      type(dcp_save_desc), target :: s
      type(dcp_load_desc), target :: l
      type(dcp_load_latest_desc), target :: n
      call begin('dcp_error', c_loc(e))
      call line('status', c_loc(e%status), c_sizeof(e%status))
      call line('sys', c_loc(e%sys), c_sizeof(e%sys))
      call line('rank', c_loc(e%rank), c_sizeof(e%rank))
      call line('is_transient', c_loc(e%is_transient), c_sizeof(e%is_transient))
      call line('message', c_loc(e%message), c_sizeof(e%message))
      call line('.', c_loc(e), c_sizeof(e))
      call begin('dcp_io', c_loc(io))
      call line('storage', c_loc(io%storage), c_sizeof(io%storage))
      call line('coordinator', c_loc(io%coordinator), c_sizeof(io%coordinator))
      call line('memory_budget', c_loc(io%memory_budget), c_sizeof(io%memory_budget))
      call line('threads', c_loc(io%threads), c_sizeof(io%threads))
      call line('timeout_ms', c_loc(io%timeout_ms), c_sizeof(io%timeout_ms))
      call line('deadline_ms', c_loc(io%deadline_ms), c_sizeof(io%deadline_ms))
      call line('retry', c_loc(io%retry), c_sizeof(io%retry))
      call line('cancel', c_loc(io%cancel), c_sizeof(io%cancel))
      call line('progress', c_loc(io%progress), c_sizeof(io%progress))
      call line('progress_user', c_loc(io%progress_user), c_sizeof(io%progress_user))
      call line('log', c_loc(io%log), c_sizeof(io%log))
      call line('log_user', c_loc(io%log_user), c_sizeof(io%log_user))
      call line('.', c_loc(io), c_sizeof(io))
      call begin('dcp_tensor', c_loc(t))
      call line('name', c_loc(t%name), c_sizeof(t%name))
      call line('dtype', c_loc(t%dtype), c_sizeof(t%dtype))
      call line('ndim', c_loc(t%ndim), c_sizeof(t%ndim))
      call line('shape', c_loc(t%shape), c_sizeof(t%shape))
      call line('global_shape', c_loc(t%global_shape), c_sizeof(t%global_shape))
      call line('global_offset', c_loc(t%global_offset), c_sizeof(t%global_offset))
      call line('stride', c_loc(t%stride), c_sizeof(t%stride))
      call line('placement', c_loc(t%placement), c_sizeof(t%placement))
      call line('data', c_loc(t%data), c_sizeof(t%data))
      call line('device', c_loc(t%device), c_sizeof(t%device))
      call line('role', c_loc(t%role), c_sizeof(t%role))
      call line('tier', c_loc(t%tier), c_sizeof(t%tier))
      call line('expert_key', c_loc(t%expert_key), c_sizeof(t%expert_key))
      call line('optional', c_loc(t%optional), c_sizeof(t%optional))
      call line('status', c_loc(t%status), c_sizeof(t%status))
      call line('version', c_loc(t%version), c_sizeof(t%version))
      call line('extra', c_loc(t%extra), c_sizeof(t%extra))
      call line('stored_name', c_loc(t%stored_name), c_sizeof(t%stored_name))
      call line('allocate', c_loc(t%allocate), c_sizeof(t%allocate))
      call line('allocate_user', c_loc(t%allocate_user), c_sizeof(t%allocate_user))
      call line('convert', c_loc(t%convert), c_sizeof(t%convert))
      call line('.', c_loc(t), c_sizeof(t))
      call begin('dcp_save_desc', c_loc(s))
      call line('path', c_loc(s%path), c_sizeof(s%path))
      call line('tensors', c_loc(s%tensors), c_sizeof(s%tensors))
      call line('tensor_count', c_loc(s%tensor_count), c_sizeof(s%tensor_count))
      call line('step', c_loc(s%step), c_sizeof(s%step))
      call line('keep_last', c_loc(s%keep_last), c_sizeof(s%keep_last))
      call line('keep_every', c_loc(s%keep_every), c_sizeof(s%keep_every))
      call line('verifier', c_loc(s%verifier), c_sizeof(s%verifier))
      call line('layout', c_loc(s%layout), c_sizeof(s%layout))
      call line('checksum', c_loc(s%checksum), c_sizeof(s%checksum))
      call line('alignment', c_loc(s%alignment), c_sizeof(s%alignment))
      call line('block_size', c_loc(s%block_size), c_sizeof(s%block_size))
      call line('overwrite', c_loc(s%overwrite), c_sizeof(s%overwrite))
      call line('allow_holes', c_loc(s%allow_holes), c_sizeof(s%allow_holes))
      call line('unique_names', c_loc(s%unique_names), c_sizeof(s%unique_names))
      call line('training', c_loc(s%training), c_sizeof(s%training))
      call line('sharding', c_loc(s%sharding), c_sizeof(s%sharding))
      call line('fields', c_loc(s%fields), c_sizeof(s%fields))
      call line('field_count', c_loc(s%field_count), c_sizeof(s%field_count))
      call line('model_id', c_loc(s%model_id), c_sizeof(s%model_id))
      call line('tiers', c_loc(s%tiers), c_sizeof(s%tiers))
      call line('tier_count', c_loc(s%tier_count), c_sizeof(s%tier_count))
      call line('yaml', c_loc(s%yaml), c_sizeof(s%yaml))
      call line('signer', c_loc(s%signer), c_sizeof(s%signer))
      call line('report', c_loc(s%report), c_sizeof(s%report))
      call line('io', c_loc(s%io), c_sizeof(s%io))
      call line('router_seeds', c_loc(s%router_seeds), c_sizeof(s%router_seeds))
      call line('router_seed_count', c_loc(s%router_seed_count), c_sizeof(s%router_seed_count))
      call line('extra', c_loc(s%extra), c_sizeof(s%extra))
      call line('optim_extra', c_loc(s%optim_extra), c_sizeof(s%optim_extra))
      call line('router_extra', c_loc(s%router_extra), c_sizeof(s%router_extra))
      call line('tier_extras', c_loc(s%tier_extras), c_sizeof(s%tier_extras))
      call line('router_seed_extras', c_loc(s%router_seed_extras), c_sizeof(s%router_seed_extras))
      call line('.', c_loc(s), c_sizeof(s))
      call begin('dcp_load_desc', c_loc(l))
      call line('path', c_loc(l%path), c_sizeof(l%path))
      call line('tensors', c_loc(l%tensors), c_sizeof(l%tensors))
      call line('tensor_count', c_loc(l%tensor_count), c_sizeof(l%tensor_count))
      call line('exact', c_loc(l%exact), c_sizeof(l%exact))
      call line('verify', c_loc(l%verify), c_sizeof(l%verify))
      call line('verifier', c_loc(l%verifier), c_sizeof(l%verifier))
      call line('minimum_step', c_loc(l%minimum_step), c_sizeof(l%minimum_step))
      call line('share_reads', c_loc(l%share_reads), c_sizeof(l%share_reads))
      call line('metadata', c_loc(l%metadata), c_sizeof(l%metadata))
      call line('io', c_loc(l%io), c_sizeof(l%io))
      call line('sources', c_loc(l%sources), c_sizeof(l%sources))
      call line('source_count', c_loc(l%source_count), c_sizeof(l%source_count))
      call line('report', c_loc(l%report), c_sizeof(l%report))
      call line('.', c_loc(l), c_sizeof(l))
      call begin('dcp_load_latest_desc', c_loc(n))
      call line('directory', c_loc(n%directory), c_sizeof(n%directory))
      call line('series', c_loc(n%series), c_sizeof(n%series))
      call line('tensors', c_loc(n%tensors), c_sizeof(n%tensors))
      call line('tensor_count', c_loc(n%tensor_count), c_sizeof(n%tensor_count))
      call line('exact', c_loc(n%exact), c_sizeof(n%exact))
      call line('verify', c_loc(n%verify), c_sizeof(n%verify))
      call line('verifier', c_loc(n%verifier), c_sizeof(n%verifier))
      call line('minimum_step', c_loc(n%minimum_step), c_sizeof(n%minimum_step))
      call line('share_reads', c_loc(n%share_reads), c_sizeof(n%share_reads))
      call line('metadata', c_loc(n%metadata), c_sizeof(n%metadata))
      call line('io', c_loc(n%io), c_sizeof(n%io))
      call line('sources', c_loc(n%sources), c_sizeof(n%sources))
      call line('source_count', c_loc(n%source_count), c_sizeof(n%source_count))
      call line('report', c_loc(n%report), c_sizeof(n%report))
      call line('.', c_loc(n), c_sizeof(n))
   end subroutine
end program
