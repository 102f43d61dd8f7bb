#!/bin/sh
# test_mutants.sh: the test of the crash tests. A copy of dcp.h is broken in many ways, one rule of the protocol at a
# time; each time a test must fail. One program holds all of them: a patch puts `dcpi_mutant(n)` where it breaks
# something, and DCP_MUTANT=n chooses it when the program runs. A patch that no longer applies, exactly where it is
# meant to, is a failure: say it anew for the code as it is now.
#
#     sh tests/test_mutants.sh [text]                   only mutants whose name contains the text
cd "$(dirname "$0")/.." || exit 1
. tests/tools.sh
# clang builds in a third of the time.
if [ -z "${CC:-}" ] && command -v clang >/dev/null 2>&1; then CC=clang; fi
CC=${CC:-cc}
work=$(mktemp -d "${TMPDIR:-/tmp}/dcp_mutants.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
"${MAKE:-make}" -s build/statuses.h || exit 1
tab=$(printf '\t')
ok() { passed=$((passed + 1)) && echo "ok $1"; }
bad() { failed=$((failed + 1)) && echo "FAILED $1"; }

# Of each mutant: `name` what is wrong, `caught` by which suite and which of its tests, and which family of test_model's
# random programs must find it too (MODEL=300: that is tried instead, for 300 s of processor each); then, for each
# place, `in` which function (its definition, by name), `-` a part of a line there, the first that has it, and `+` what
# it becomes. MUTANT: whether this one is chosen. More lines with `+` go on with the first.
mutants() {
    cat <<'END'
name no sync of the directory after the rename that commits
caught crash overwrites
in dcpi_commit_sync
- status = dcpi_place_sync(&s->place, err);
+ status = MUTANT ? DCP_OK : dcpi_place_sync(&s->place, err);

name retention takes the checkpoint that was loaded
caught resume spares_the_one
in dcpi_prune_is_needed
- if (loaded == 0) return 0;
+ if (MUTANT || loaded == 0) return 0;

name retention before the commit
caught resume after_the_commit
in dcpi_commit_stage
- const dcp_status status = dcpi_commit_run(s, err);
+ const dcp_status status = (MUTANT && s->desc->keep_last ? dcpi_commit_retain(s) : (void)0,
+     dcpi_commit_run(s, err));

name retention takes another series
caught resume keeps_to_its_series
in dcpi_commit_retain
- prune.series = s->place.name;
+ prune.series = MUTANT ? NULL : s->place.name;

name a load of the newest skips what is no damage
caught resume what_is_no_damage
in dcpi_newest_try
- if (!dcpi_is_damage(status)) return status;
+ if (!MUTANT && !dcpi_is_damage(status)) return status;

name all dead saves are held at once
caught lock very_many_dead_saves
in dcpi_dead_find
- sweep->dead_count < DCPI_DEAD_AT_ONCE && !status
+ (MUTANT || sweep->dead_count < DCPI_DEAD_AT_ONCE) && !status

name the newest is looked for in one listing
caught resume one_comes_and_one_goes
in dcpi_commits_settle
- (commits->count > 0 ? 1 : 3)
+ (MUTANT ? 0 : commits->count > 0 ? 1 : 3)

name a repair does not look whether the commit file is still the one it read
caught repair what_another_one_does
in dcpi_repair_last_look
- if (memcmp(now, y->commit_digest, sizeof now) != 0)
+ if (!MUTANT && memcmp(now, y->commit_digest, sizeof now) != 0)

name a repair takes the commit file of another save
caught repair copies_of_other_saves
in dcpi_repair_is_same_save
- if (status || says) return status;
+ if (status || says || MUTANT) return status;

name a repair replaces whatever the document names
caught repair files_of_others
in dcpi_repair_may_replace
- else if (!is_own) why
+ else if (!is_own && !MUTANT) why

name a repair does not check what it writes
caught repair what_changes_before
in dcpi_remake_pass
- *has = !status && dcpi_sha_equal(digest, run->digest, sizeof digest);
+ *has = !status && (MUTANT || dcpi_sha_equal(digest, run->digest, sizeof digest));

name a repair does not sync the directory after a rename
caught repair each_replacement_is_synced
in dcpi_repair_replace
- if (!status) status = dcpi_names_sync(&y->place, &keys, err);
+ if (!status && !MUTANT) status = dcpi_names_sync(&y->place, &keys, err);

name no sync of the directory after a shard
caught crash overwrites
in dcpi_shards_write_once
- return status ? status : dcpi_names_sync(
+ return status || MUTANT ? status : dcpi_names_sync(

name the directory itself is not made before those above it are synced
caught crash first_saves
in dcpi_place_sync_all
- dcp_status status = dcpi_storage_sync_directory(place->storage, place->directory, err);
+ dcp_status status = MUTANT ? DCP_OK : dcpi_storage_sync_directory(place->storage, place->directory, err);

name no sync of the storage's base
caught crash first_saves
in dcpi_place_sync_all
- status = dcpi_storage_sync_directory(place->storage, "", err);
+ status = MUTANT ? DCP_OK : dcpi_storage_sync_directory(place->storage, "", err);

name no sync of the directories between
caught crash first_saves
in dcpi_place_sync_all
- status = dcpi_storage_sync_directory(place->storage, part, err);
+ status = MUTANT ? DCP_OK : dcpi_storage_sync_directory(place->storage, part, err);

name the directories above one that was there are not synced
caught crash processes_that_die
in dcpi_save_prepare
- status = dcpi_place_sync_all(&s->place, err);
+ status = MUTANT && dcpi_mutant_is_there(&s->place) ? dcpi_place_sync(&s->place, err) :
+     dcpi_place_sync_all(&s->place, err);

name a manifest's folders are not synced in those above them
caught crash first_saves
in dcpi_names_directories
- status = dcpi_names_add(directories, key, err);
+ status = dcpi_names_add(directories, key, err); if (MUTANT) break;

name a remove says that there is none, of what it has removed
caught faults does_not_find
in dcpi_removal_vanished
- if (status != DCP_E_NOT_FOUND) return status;
+ if (MUTANT || status != DCP_E_NOT_FOUND) return status;

name rank 0 opens again what the others have given up
caught ranks while_ranks_open_it
in dcpi_load_share
- dcpi_load_note_replaced(l->checkpoint, status);
+ if (!MUTANT) dcpi_load_note_replaced(l->checkpoint, status);
in dcpi_load_note_replaced
- !dcpi_team_is_over(t)
+ (MUTANT || !dcpi_team_is_over(t))

name a load copies its operation, which points into itself
caught ranks whole_shards
in dcpi_open_phase
- dcpi_op without, *op = c ? &c->op : &without;
+ dcpi_op without, *op = c && !MUTANT ? &c->op : &without;
in dcpi_open_phase
- c->verify = desc->verify;
+ if (MUTANT) c->op = without;
+ c->verify = desc->verify;

name a manifest's files are not synced by name
caught crash first_saves
in dcpi_pool_write
- return status ? status : dcpi_names_sync(
+ return status || MUTANT ? status : dcpi_names_sync(

name a copy's files are not synced by name
caught crash syncs_of_a_copy
in dcpi_sync_commit
- if (!status) status = dcpi_names_sync(
+ if (!status && !MUTANT) status = dcpi_names_sync(

name a copy's files that were there are not synced by name
caught crash syncs_that_die
in dcpi_sync_look
- if (!status) status = dcpi_names_add(&y->files, key, err);
+ if (!status && !(MUTANT && *state == DCPI_SYNC_THERE)) status = dcpi_names_add(&y->files, key, err);

name no sync of the directory after a copy's document
caught crash syncs_of_a_copy
in dcpi_sync_publish
- if (!status) status = dcpi_place_sync(
+ if (!status && !MUTANT) status = dcpi_place_sync(

name what stays is not made durable before a document is removed
caught crash processes_that_die
in dcpi_remove_commits
- commits->count > 0) status = dcpi_place_sync(
+ commits->count > 0 && !MUTANT) status = dcpi_place_sync(

name no sync of the directory between a document and its data
caught crash removals
in dcpi_remove_commits
- commits->count > 0) status = dcpi_place_sync(
+ commits->count > 0 && !MUTANT) status = dcpi_place_sync(

name data removed before the document
caught crash removals
in dcpi_remove_note
- if (!looked && goes && !is_single) status = dcpi_names_add_data(&r->data, commit, document.metadata, err);
+ if (!looked && goes && !is_single) status = dcpi_names_add_data(&r->data, commit, document.metadata, err);
+ if (MUTANT) dcpi_mutant_remove(r->place, &r->data);

name a sweep without the sync of the directory
caught crash a_sweep_beside
in dcpi_sweep_run
- if (!status) status = dcpi_place_sync(sweep->place, err);
+ if (!status && !MUTANT) status = dcpi_place_sync(sweep->place, err);

name a sweep looks at documents before candidates, and takes what they name
caught crash removals
in dcpi_sweep_data
- dcpi_names_has(&refs.names, name)) continue;
+ (dcpi_names_has(&refs.names, name) && !MUTANT)) continue;

name shards published over existing names, plain names reused
caught crash overwrites
in dcpi_save_publish
- object, 0, err);
+ object, MUTANT | 0, err);
in dcpi_save_survey
- s->has_id = has_commit ||
+ s->has_id = MUTANT ? 0 : has_commit ||

name shards published over existing names
caught interleave where_there_are_no_locks
in dcpi_save_publish
- | 0, err);
+ | MUTANT, err);

name a first commit that replaces
caught interleave where_there_are_no_locks
in dcpi_commit_rename
- how = { s->displaces,
+ how = { MUTANT || s->displaces,

name an overwrite that does not look again at what it displaces
caught crash saves_of_one_path
in dcpi_commit_is_same
- if (memcmp(now, s->displaced_digest, sizeof now) == 0)
+ if (MUTANT || memcmp(now, s->displaced_digest, sizeof now) == 0)

name the old document is unlinked before the rename
caught crash overwrites
in dcpi_commit_run
- else status = dcpi_commit_rename(s, &lock, err);
+ else {
+     if (MUTANT) (void)dcpi_storage_remove(s->place.storage, s->commit_key, NULL);
+     status = dcpi_commit_rename(s, &lock, err);
+ }

name the displaced data goes before the commit
caught crash overwrites
in dcpi_commit_run
- status = dcpi_commit_rename(s, &lock, err);
+ dcpi_mutant_displace(s, MUTANT); status = dcpi_commit_rename(s, &lock, err);

name the document is written in place
caught crash first_saves
in dcpi_document_begin
- s->document_temporary = dcpi_temporary_name(
+ s->document_temporary = MUTANT ? dcpi_copy_text(s->commit_key, err) : dcpi_temporary_name(

name the commit does not wait for the other ranks' files
caught crash first_saves
in dcpi_save_publish
- status = dcpi_storage_commit(
+ status = MUTANT && s->op.team.rank > 0 ? dcpi_mutant_later(s, object, key) : dcpi_storage_commit(
in dcpi_finish_run
- dcpi_beacon_remove(s);
+ dcpi_beacon_remove(s); if (MUTANT && s->op.team.rank > 0) dcpi_mutant_now(s);
in dcpi_checks_run
- dcpi_batch_run(b);
+ if (MUTANT) { dcpi_batch_clear(b); return DCP_OK; } dcpi_batch_run(b);

name UNKNOWN removes what it made
caught crash unknown_removes_nothing
in dcpi_finish_run
- s->status != DCP_E_UNKNOWN) dcpi_finish_take_back(s);
+ (MUTANT || s->status != DCP_E_UNKNOWN)) dcpi_finish_take_back(s);

name a failed sync after the rename is a failure, not UNKNOWN
caught crash unknown_removes_nothing
in dcpi_commit_sync
- return dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,
+ return MUTANT ? DCP_E_IO : dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,

name no intent
caught crash a_removal_beside
in dcpi_intent_publish
- if (!status) status = *key ?
+ if (!status && !MUTANT) status = *key ?

name no second look at the base
caught crash a_removal_that_takes_its_time
in dcpi_pool_prepare
- if (!status && memcmp(now, base->digest, sizeof now) == 0)
+ if (MUTANT || (!status && memcmp(now, base->digest, sizeof now) == 0))

name intents are looked for before the document is gone
caught crash a_removal_that_began_before
in dcpi_remove_files
- dcp_status status = dcpi_remove_commits(
+ dcp_status status = !MUTANT ? DCP_OK :
+     dcpi_intents_pending(r->op, r->place, DCP_GRACE_SECONDS, NULL, 0, &refs.pending, err);
+ status = dcpi_remove_commits(
in dcpi_remove_files
- if (!status && has_pool && data->count > 0)
+ if (!status && !MUTANT && has_pool && data->count > 0)

name kept files are not checked before the commit
caught crash a_kept_file_that_goes
in dcpi_commit_check
- return status || !s->layout->check ?
+ return status || MUTANT || !s->layout->check ?

name a rank acknowledges after its own deadline
caught crash a_rank_whose_deadline
in dcpi_save_acknowledge
- if (!status) status = dcpi_op_check(&s->op, err);
+ if (!status && !MUTANT) status = dcpi_op_check(&s->op, err);

name no fdatasync of a file's bytes
caught crash the_local_storage
in dcpi_local_commit
- const int unsynced = dcpi_os_sync(&object->file),
+ const int unsynced = MUTANT ? 0 : dcpi_os_sync(&object->file),

name no fdatasync of a directory
caught crash the_local_storage
in dcpi_local_sync_directory
- sys = dcpi_os_sync_directory(&local->base, directory);
+ sys = MUTANT ? 0 : dcpi_os_sync_directory(&local->base, directory);

name no sync above the base
caught crash the_local_storage
in dcpi_os_base_open
- error = dcpi_os_sync_parent(out->fd);
+ error = MUTANT ? 0 : dcpi_os_sync_parent(out->fd);

name the directories above an object are not synced
caught crash whole_objects
in dcpi_object_sync_above
- while (!status && directory[0] != '\0') {
+ while (!status && !MUTANT && directory[0] != '\0') {

name the directories above a copy are not synced
caught crash syncs_of_a_copy
in dcpi_sync_open
- return status ? status : dcpi_place_sync_all(&y->to, err);
+ return status || MUTANT ? status : dcpi_place_sync_all(&y->to, err);

name plain shard names reused
caught crash an_unlink_that_comes_late
in dcpi_save_survey
- s->has_id =
+ s->has_id = MUTANT ? 0 :

name a checkpoint takes along whatever its document names
caught directory nothing_goes_because foreign
in dcpi_names_add_data
- if (dcpi_is_data_of(commit, path))
+ if (MUTANT || dcpi_is_data_of(commit, path))

name a checkpoint takes along the shards of every other one
caught directory nothing_goes_because
in dcpi_is_data_of
- return dcpi_shard_prefix(path, strlen(path), 1) == prefix &&
+ return MUTANT ? dcpi_shard_prefix(path, strlen(path), 1) > 0 : dcpi_shard_prefix(path, strlen(path), 1) == prefix &&

name a manifest takes along files in other directories of checkpoints
caught pool nothing_goes_because
in dcpi_own_strike
- if (status || !is_own) continue;
+ if (status || !is_own || MUTANT) continue;

name a sweep goes into directories of checkpoints
caught directory sweep_leaves_directories foreign
in dcpi_sweep_pool
- if (!status) status = dcpi_own_directory(
+ if (!status && !MUTANT) status = dcpi_own_directory(

name a directory with a first save in it is a folder of manifests
caught directory sweep_leaves_a_first
in dcpi_is_of_directory
- return dcpi_is_intent(name);
+ return !MUTANT && dcpi_is_intent(name);
in dcpi_is_of_directory
- for (i = 0; i < DCPI_COUNT(endings); i++)
+ for (i = 0; i < (MUTANT ? 4 : DCPI_COUNT(endings)); i++)

name a sync replaces whatever is there
caught pool sync_replaces_nothing
in dcpi_sync_may_take
- if (!is_ours)
+ if (!is_ours && !MUTANT)

name a document may name a commit file as data
caught meta every_rule_of_the_format
in dcpi_check_path
- else if (dcpi_is_reserved(path, is_single))
+ else if (!MUTANT && dcpi_is_reserved(path, is_single))

name a save counts on what a document claims that is not intact
caught directory what_is_not_intact foreign
in dcpi_survey_ask
- if (!status) return DCP_OK;
+ if (!status || MUTANT) return DCP_OK;

name a number that is not in the first bytes is ignored
caught directory the_number_of_a_manifest
in dcpi_claim_json
- if (!goes_on || r.status) claim = DCPI_CLAIM_UNKNOWN;
+ if (!goes_on || r.status) claim = MUTANT ? 0 : DCPI_CLAIM_UNKNOWN;

name what claims no number is the newest
caught directory the_order_does_not_depend foreign
in dcpi_latest_ask
- if (c->number != DCPI_CLAIM_UNKNOWN) continue;
+ if (MUTANT || c->number != DCPI_CLAIM_UNKNOWN) continue;

name the first sequence in the text is the number
caught directory the_order_does_not_depend foreign
in dcpi_claim_json
- dcpi_json_begin(&r, text, size, &arena, &ignored);
+ if (MUTANT) return dcpi_mutant_scan(text, size); dcpi_json_begin(&r, text, size, &arena, &ignored);

name numbers begin again after the last one
caught directory numbers_that_end
in dcpi_survey_number
- if (!status && highest == INT64_MAX)
+ if (MUTANT && highest == INT64_MAX) highest = 0; if (!status && highest == INT64_MAX)

name numbers leave no room for what may not be read
caught directory a_document_that_may_not
in dcpi_survey_ask
- *room = DCPI_SURVEY_ROOM;
+ *room = MUTANT ? 0 : DCPI_SURVEY_ROOM;

name a prune trusts the sizes of what it keeps
caught directory prune_never_takes
in dcpi_prune_run
- if (!status && going.count > 0 && desc->verify == DCP_VERIFY_TOUCHED) {
+ if (!status && !MUTANT && going.count > 0 && desc->verify == DCP_VERIFY_TOUCHED) {

name what is kept and damaged counts
caught directory prune_never_takes
in dcpi_prune_prove
- if (!e->status) kept++;
+ if (MUTANT) e->status = DCP_OK;
+ if (!e->status) kept++;

name a copy of a checkpoint is what this process wrote
caught directory prune_reads_once
in dcpi_proven_key
- dcpi_sha_update(&sha, place->shown, strlen(place->shown) + 1);
+ if (!MUTANT) dcpi_sha_update(&sha, place->shown, strlen(place->shown) + 1);

name kept files of a manifest are what this process wrote
caught directory prune_reads_once
in dcpi_pool_base_index
- s->is_unproven = count > 0 &&
+ s->is_unproven = !MUTANT && count > 0 &&

name a damaged document is taken for a foreign one
caught meta a_document_with_an_addition_needs_its_tail
in dcpi_parse_finish
- if (!tail->present && p->has_additions)
+ if (!MUTANT && !tail->present && p->has_additions)

name a save does not look at its document as an open does
caught meta what_an_open_would_refuse_is_not_committed
in dcpi_commit_make
- status = dcpi_document_accept(s->kind
+ if (!MUTANT) status = dcpi_document_accept(s->kind

name pieces without elements are judged by their offset alone
caught ranks ranks_without_rows on_ranks
in dcpi_check_same_piece
- if (!dcpi_shape_is_empty(x.ndim, x.shape) &&
+ if (MUTANT || !dcpi_shape_is_empty(x.ndim, x.shape) &&
in dcpi_check_piece_hash
- if (c->manifest && !is_private && dcpi
+ if (!MUTANT && c->manifest && !is_private && dcpi

name a piece without elements stands for the base of another one
caught ranks ranks_without_rows
in dcpi_pool_base_compare
- if (is_private) return
+ if (MUTANT) return 0; if (is_private) return

name the first part of a tensor is taken for the whole
caught documents parts_of_which_nothing_says_how_they_fit
in dcpi_match_is_parts
- if (c->pieces[stored->first]->meta->placement)
+ if (MUTANT || c->pieces[stored->first]->meta->placement)

name parts of a tensor in a manifest are all of rank 0
caught documents parts_of_which_nothing_says_how_they_fit
in dcpi_origin_number_parts
- order[i]->rank = order[i - 1]->rank + 1
+ order[i]->rank = order[i - 1]->rank + !MUTANT

name a signed document may name bytes without a digest
caught documents a_signed_document_without_digests
in dcpi_meta_parse
- if (status == DCP_OK && verifier)
+ if (status == DCP_OK && verifier && !MUTANT)

name a signed manifest may name bytes without a digest
caught manifest what_is_signed_is_covered
in dcpi_manifest_parse
- if (verifier)
+ if (verifier && !MUTANT)

name what is not covered is signed
caught meta what_is_signed_is_covered
in dcpi_emit_covered
- if (!e->is_signed ||
+ if (MUTANT || !e->is_signed ||

name begin returns before a manifest save has read the tensors that are not copied
caught async what_is_beyond_the_budget in_the_background
in dcpi_async_snapshot
- if (s->layout->is_pool) must_take =
+ if (s->layout->is_pool) must_take = MUTANT ? 0 :

name a manifest save says that a tensor has been read when it has only been hashed
caught async nothing_is_read_after_begin in_the_background
in dcpi_pool_write
- if (s->pool.files[i].base_path) status = dcpi_pool_keep(s, i, err);
+ if (s->pool.files[i].base_path) status = dcpi_pool_keep(s, i, err);
+ if (MUTANT && s->taken) s->taken(s->watcher, taken + s->pieces[i].size);

name tensors that no rank counts are saved as an empty checkpoint
caught roundtrip a_forgotten_tensor_count one_process
in dcpi_hello_check_lists
- if (set < 0 ||
+ if (MUTANT || set < 0 ||

name only rank 0's own list of tensors is looked at
caught rank_faults tensors_that_no_rank_counts
in dcpi_hello_check_lists
- if (set < 0 && (list & DCPI_LIST_IS_SET)) set = r;
+ if (!MUTANT && set < 0 && (list & DCPI_LIST_IS_SET)) set = r;

name no commit lock
caught interleave first_saves_in_two_layouts at_once
in dcpi_lock_take
- status = lock->key ? dcpi_lock_ask(
+ if (MUTANT) { lock->is_missing = 1; return DCP_OK; } status = lock->key ? dcpi_lock_ask(

name overwrites without the lock
caught interleave two_at_a_time at_once
in dcpi_commit_lock
- dcp_status status = dcpi_lock_take(
+ dcp_status status = MUTANT ? (lock->is_missing = 1, DCP_OK) : dcpi_lock_take(

name the lock is let go before the rename
caught interleave first_saves_in_two_layouts
in dcpi_commit_run
- if (status) dcpi_document_abort(
+ if (MUTANT) dcpi_lock_release(&lock); if (status) dcpi_document_abort(

name the lock is let go before the directory's sync
caught lock the_lock_is_held
in dcpi_commit_run
- if (!status) status = dcpi_commit_sync(s, err);
+ if (MUTANT) dcpi_lock_release(&lock); if (!status) status = dcpi_commit_sync(s, err);

name the look comes before the lock
caught interleave first_saves_in_two_layouts
in dcpi_commit_run
- if (!status) status = dcpi_commit_lock(
+ if (!status && MUTANT) status = dcpi_commit_last_look(s, err); if (!status) status = dcpi_commit_lock(
in dcpi_commit_run
- if (!status) status = dcpi_commit_last_look(s, err);
+ if (!status && !MUTANT) status = dcpi_commit_last_look(s, err);

name no look at other layouts
caught interleave first_saves_in_two_layouts at_once
in dcpi_commit_last_look
- if (!status) status = dcpi_commit_find(
+ if (!status && !MUTANT) status = dcpi_commit_find(

name the document of a holder that was given up is not removed
caught interleave a_holder_that_stands_still
in dcpi_lock_take
- if (!status) status = dcpi_lock_fence(
+ if (!status && !MUTANT) status = dcpi_lock_fence(

name a holder does not say which document it is about to commit
caught interleave a_holder_that_stands_still
in dcpi_commit_lock
- if (!status) status = dcpi_lock_note(
+ if (!status && !MUTANT) status = dcpi_lock_note(

name who could not remove a document that was given up forgets it
caught lock a_note_stays
in dcpi_local_unlock
- lock->has_noted &&
+ (MUTANT || lock->has_noted) &&

name a failed save removes plain names after it has lost the lock
caught faults a_first_save_that_may_have_happened
in dcpi_commit_was_fenced
- s->leaves_plain = 1;
+ s->leaves_plain = !MUTANT;

name no save says that it lives
caught kill killed_around_each_storage
in dcpi_live_take
- status = dcpi_storage_lock(lock->storage,
+ status = MUTANT ? dcpi_fail(&err, DCP_E_UNSUPPORTED, "no") : dcpi_storage_lock(lock->storage,

name a save does not look for its own lock before it commits
caught lock a_save_that_is_taken_for_dead
in dcpi_commit_last_look
- if (!status && s->live.held) {
+ if (!status && s->live.held && !MUTANT) {

name the document of a save that is taken for dead stays
caught lock a_save_that_is_taken_for_dead
in dcpi_sweep_run
- if (!status) status = dcpi_sweep_temporaries(sweep, err);
+ if (!status && !MUTANT) status = dcpi_sweep_temporaries(sweep, err);

name a free lock means a dead save, wherever it was taken
caught lock what_a_dead_save_left
in dcpi_dead_judge
- if (!may_be) may_be = dcpi_live_here(
+ if (MUTANT) may_be = 1; if (!may_be) may_be = dcpi_live_here(

name a save that could not be alone takes plain names
caught lock plain_names_belong
in dcpi_save_survey
- survey.has_rival ||
+ (survey.has_rival && !MUTANT) ||

name plain names are a dead save's though its other ranks may live
caught lock plain_names_belong
in dcpi_coord_is_of_process
- c->send == dcpi_endpoint_send
+ (MUTANT || c->send == dcpi_endpoint_send)

name plain names go whatever the note of a dead save says
caught lock what_a_dead_save_left
in dcpi_dead_owns
- return dead->has_plain &&
+ return (dead->has_plain || MUTANT) &&

name a lock without a note says that its save is dead
caught lock what_a_dead_save_left
in dcpi_dead_read
- if (!dcpi_starts_with(note, "live ")) return;
+ if (!MUTANT && !dcpi_starts_with(note, "live ")) return;

name a save does not list the names that it may publish in the pool
caught kill killed_around_each_system
in dcpi_pool_list
- if (!s->live.held ||
+ if (MUTANT || !s->live.held ||

name what a dead save left stays
caught kill killed_around_each_storage
in dcpi_save_live
- if (lives->count > 0) dcpi_dead_remove(
+ if (lives->count > 0 && !MUTANT) dcpi_dead_remove(

name removals without the lock
caught lock the_lock_is_held
in dcpi_remove_lock
- if (r->dry_run ||
+ if (MUTANT || r->dry_run ||

name who removes does not say so
caught interleave removals_whose_holder
in dcpi_lock_take_to_remove
- if (!status) status = dcpi_lock_note(
+ if (!status && !MUTANT) status = dcpi_lock_note(

name the lock is taken from who removes
caught lock who_removes_is_not_taken_over
in dcpi_lock_ask
- strcmp(w.note, DCPI_LOCK_REMOVES) != 0
+ (MUTANT || strcmp(w.note, DCPI_LOCK_REMOVES) != 0)

name a lock is taken from a holder that lives
caught lock a_lock_that_was_taken
in dcpi_lock_turn
- silent != *holder)
+ (silent != *holder && !(MUTANT && silent)))

name a file that has lost its name is locked
caught lock a_lock_file_that_goes
in dcpi_lock_enter
- if (!sys && dcpi_os_lock_is_named(
+ if (!sys && MUTANT) return 0; if (!sys && dcpi_os_lock_is_named(

name whose turn is over may note
caught lock a_lock_that_was_taken
in dcpi_local_lock_note
- is_ours = dcpi_lock_is_ours(local, lock);
+ is_ours = MUTANT || dcpi_lock_is_ours(local, lock);

name whose turn is over removes the file
caught lock a_lock_that_was_taken
in dcpi_local_unlock
- dcpi_lock_is_ours(local, lock))
+ (MUTANT || dcpi_lock_is_ours(local, lock)))

name a sweep takes a lock file that is held
caught lock a_sweep_takes_lock_files
in dcpi_sweep_lock
- if (!status && is_ours && !dry_run) status = dcpi_lock_take(sweep->op, sweep->place, prefix, 0, &lock, err);
+ if (MUTANT) {
+     char *held = dcpi_place_key(sweep->place, name, err);
+     (void)dcpi_storage_remove(sweep->place->storage, held, err);
+     dcpi_free(held);
+     return DCP_OK;
+ }
+ if (!status && is_ours && !dry_run) status = dcpi_lock_take(sweep->op, sweep->place, prefix, 0, &lock, err);

name a lock's note may name any file
caught lock what_a_lock_that_was_lost
in dcpi_lock_fence
- if (!dcpi_lock_names_document(note, prefix)) return DCP_OK;
+ if (!MUTANT && !dcpi_lock_names_document(note, prefix)) return DCP_OK;

name plain names where publishing may replace
caught lock where_publishing_may_replace
in dcpi_save_survey
- !(s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH) ||
+ (!MUTANT && !(s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH)) ||

name a pool's plain names where publishing may replace
caught lock where_publishing_may_replace
in dcpi_pool_listen
- || !(s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH);
+ || (!MUTANT && !(s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH));

name a path through a file is a first start
caught calls a_path_through_a_file
in dcpi_storage_absent
- if (status != DCP_E_NOT_FOUND ||
+ if (MUTANT || status != DCP_E_NOT_FOUND ||

name a last word that is on its way is taken for one that was not sent
caught rank_faults a_send_that_fails_and_arrives with_faults
in dcpi_team_lost
- if (t->state >= DCPI_RANK_HAS_SAID_ALL &&
+ if (t->state >= (MUTANT ? DCPI_RANK_HAS_PROMISED : DCPI_RANK_HAS_SAID_ALL) &&

name who waits for a rank that has died seems to have stood still
caught rank_faults who_lives_takes_back with_faults
in dcpi_team_tick
- dcpi_op_note_time(op);
+ if (!MUTANT) dcpi_op_note_time(op);

name a failure that nobody asked for is forgotten
caught async a_verdict_that_nobody_fetched
in dcp_saver_close
- status = dcpi_async_answer(
+ status = MUTANT ? dcpi_succeed(err) : dcpi_async_answer(
in dcpi_async_free
- if (dcpi_async_answer(
+ if (MUTANT) (void)dcpi_succeed(earlier); else if (dcpi_async_answer(

name a cancel after the commit ends the tidying up
caught async a_cancel_after_the_commit with_faults
in dcpi_commit_run
- is_committed, !status);
+ is_committed, !status && !MUTANT);

name rank 0 leaves without saying its last word to who has not confirmed it
caught tree falls_silent
in dcpi_team_stay
- if (!t->peers[r].has_heard)
+ if (!t->peers[r].has_heard && !MUTANT)

name who loses rank 0 does not tell the ranks below
caught tree falls_silent
in dcpi_team_lost
- for (r = t->rank ?
+ for (r = t->rank && !MUTANT ?

name a parent that is silent is waited for until the end
caught tree may_die_while
in dcpi_team_check_silence
- if (t->parent &&
+ if (t->parent && !MUTANT &&

name ranks of different worlds may meet
caught rank_faults another_world_size
in dcpi_head_compare
- head->world_size == own->world_size &&
+ (head->world_size == own->world_size || MUTANT) &&

name the root of a collective is not compared
caught coord different_calls_are_a_mismatch are_slow
in dcpi_head_compare
- head->root == own->root &&
+ (head->root == own->root || MUTANT) &&

name numbers that are skipped may be out of range for a double
caught roundtrip what_no_document_can_say
in dcpi_json_skip
- r->finite ?
+ r->finite && !MUTANT ?

name a file of nothing is read to its end
caught faults large_files_that_are_no_metadata foreign
in dcpi_sense_of
- size_t i;
+ size_t i; if (MUTANT) return size;

name a file with a time in the future is young forever
caught pool an_intent_from_the_future
in dcpi_age_protects
- && modified_ns <= age->after_ns;
+ && (MUTANT || modified_ns <= age->after_ns);

name what a callback returns is passed on
caught calls what_a_callback_returns
in dcpi_callback_status
- (by->may_be >> number & 1) ?
+ (MUTANT || (by->may_be >> number & 1)) ?

name a sync counts on what a save under way may take back
caught pool_faults a_sync_does_not_count_on
in dcpi_sync_check_found
- if (status || !pending) return status;
+ if (status || !pending || MUTANT) return status;

name a sync onto itself brings back what it read first
caught pool_faults a_sync_onto_itself
in dcpi_sync_check_self
- if (status || memcmp(source, now, sizeof source) != 0)
+ if (MUTANT || status || memcmp(source, now, sizeof source) != 0)

name a document that is missed once names nothing
caught faults what_is_missed_once
in dcpi_commit_has_gone
- && dcpi_place_stat(
+ && MUTANT ? 1 : status == DCP_E_NOT_FOUND && dcpi_place_stat(

name a rank's failure takes the place of what it has sent
caught coord a_failure_leaves_what
in dcpi_team_take_failure
- peer->failure = message;
+ peer->failure = message;
+ if (MUTANT) {
+     dcpi_team_forget(peer);
+     peer->message = (uint8_t *)dcpi_alloc(size, NULL);
+     if (peer->message) memcpy(peer->message, message, size);
+     peer->size = size;
+ }

name a prune takes what was saved since it listed
caught lock a_prune_leaves
in dcpi_remove_is_chosen
- if (!r->chosen) return 1;
+ if (MUTANT || !r->chosen) return 1;
END
}

# ---- the broken copy -------------------------------------------------------------------------------------------------
cat >"$work/prelude" <<'END'
static int dcpi_mutant(int n) {
    static int chosen = -1;
    if (chosen < 0) chosen = getenv("DCP_MUTANT") ? atoi(getenv("DCP_MUTANT")) : 0;
    return chosen == n;
}
static long long dcpi_mutant_scan(const char *text, size_t size) {
    size_t i;
    for (i = 0; i + 12 < size; i++) if (memcmp(text + i, "\"sequence\": ", 12) == 0) return atoll(text + i + 12);
    return 0;
}
END
cat >"$work/early" <<'END'
static void dcpi_mutant_remove(const dcpi_place *place, const dcpi_names *names) {
    size_t i;
    for (i = 0; i < names->count; i++) {
        char *key = dcpi_place_key(place, names->items[i], NULL);
        if (key) (void)dcpi_storage_remove(place->storage, key, NULL);
        dcpi_free(key);
    }
}
END
cat >"$work/helpers" <<'END'
static dcp_status dcpi_mutant_each(void *user, const char *path, const dcp_object_info *info) {
    (void)user; (void)path; (void)info;
    return DCP_OK;
}
static int dcpi_mutant_is_there(const dcpi_place *place) {
    return dcpi_place_list(place, DCP_LIST_OBJECTS, dcpi_mutant_each, NULL, NULL) == DCP_OK;
}
static void *dcpi_mutant_objects[64]; static char *dcpi_mutant_keys[64];
static dcp_status dcpi_mutant_later(const dcpi_save *s, void *object, const char *key) {
    dcpi_mutant_objects[s->op.team.rank] = object;
    dcpi_mutant_keys[s->op.team.rank] = dcpi_copy_text(key, NULL);
    return DCP_OK;
}
static void dcpi_mutant_displace(dcpi_save *s, int is_chosen) {
    if (!is_chosen) return;
    dcpi_mutant_remove(&s->place, &s->displaced);
    dcpi_mutant_remove(&s->place, &s->displaced_plain);
}
static void dcpi_mutant_now(const dcpi_save *s) {
    const int r = s->op.team.rank;
    char *key = dcpi_mutant_keys[r];
    if (key) (void)dcpi_storage_commit(s->place.storage, key, dcpi_mutant_objects[r], 0, NULL);
    dcpi_free(key);
    dcpi_mutant_keys[r] = NULL;
}
END
# $work/dcp.h, and $work/list: number, suite, tests, name; a line `misses` for a patch that does not apply
mutants >"$work/mutants"
awk -v model="${MODEL:-}" -v list="$work/list" -v prelude="$work/prelude" -v helpers="$work/helpers" \
    -v early="$work/early" '
    function insert(file,   line) { while ((getline line <file) > 0) print line }
    function whole(text) { gsub(/MUTANT/, "dcpi_mutant(" n ")", text); return text }
    FNR == NR && /^name /   { name = substr($0, 6); n++ }
    FNR == NR && /^caught / {
        if (model == "") print n "\t" $2 "\t" $3 "\t" name >list
        else if (NF == 4) print n "\tmodel\t" $4 "\t" name >list
    }
    FNR == NR && /^in /     { k++; fn[k] = $2; of[k] = name }
    FNR == NR && /^- /      { old[k] = substr($0, 3) }
    FNR == NR && /^\+ /     { new[k] = (k in new ? new[k] "\n" : "") whole(substr($0, 3)) }
    FNR == NR { next }
    { line[++lines] = $0 }
    # the definition of a function begins in the first column, and ends with a brace there
    /^[a-zA-Z].*\(/ && !/;$/ {
        head = $0
        sub(/\(.*/, "", head)
        sub(/.*[ *]/, "", head)
        if (!(head in starts)) starts[head] = lines
    }
    END {
        for (i = 1; i <= k; i++) {
            applied = 0
            for (at = starts[fn[i]]; at > 0 && at <= lines && !applied; at++) {
                where = index(line[at], old[i])
                if (where > 0) {
                    line[at] = substr(line[at], 1, where - 1) new[i] substr(line[at], where + length(old[i]))
                    applied = 1
                }
                if (line[at] ~ /^}/) break
            }
            if (!applied) print "misses\t" of[i] ": " fn[i] " has no \"" old[i] "\"" >list
        }
        for (i = 1; i <= lines; i++) {
            if (line[i] ~ /^static dcp_status dcpi_own_directory\(/) insert(early)
            if (line[i] ~ /^static dcp_status dcpi_save_place\(/) insert(helpers)
            print line[i]
            if (line[i] == "#include <string.h>") insert(prelude)
        }
    }' "$work/mutants" dcp.h >"$work/dcp.h"
sed -n "s/^misses$tab/FAILED /p" "$work/list"
failed=$(grep -c '^misses' "$work/list")
grep -v '^misses' "$work/list" | grep -F -e "${1:-$tab}" >"$work/chosen"

# ---- each is caught --------------------------------------------------------------------------------------------------
# run NUMBER SUITE TESTS: what the tests say is in the log; their own status
run() {
    DCP_MUTANT=$1 DCP_TEST_CRASH_STATES=0 DCP_TEST_FILTER=$3 DCP_TEST_STATUSES= \
        "$work/test_$2" >"$work/log" 2>&1 </dev/null
}
if [ -n "${MODEL:-}" ]; then
    DCP_MODEL_SECONDS=$MODEL DCP_MODEL_SHRINK=0 DCP_TEST_TIMEOUT=0
    export DCP_MODEL_SECONDS DCP_MODEL_SHRINK DCP_TEST_TIMEOUT
fi
for suite in $(cut -f 2 "$work/chosen" | sort -u); do
    # shellcheck disable=SC2086
    if ! $CC -O0 -w -DDCP_STATIC -I"$work" -I. "tests/test_$suite.c" -o "$work/test_$suite" -lm \
        -pthread 2>"$work/errors"; then
        head -n 5 "$work/errors"
        bad "building test_$suite with the patched header"
    fi
done
# Nothing chosen: nothing is wrong. In make test the suites themselves show that; who changes a patch runs its rows.
for pair in $([ -n "${MODEL:-}" ] || [ -z "${1:-}${WHOLE:-}" ] || cut -f 2,3 "$work/chosen" | tr '\t' : | sort -u); do
    suite=${pair%%:*} tests=${pair#*:}
    if run 0 "$suite" "$tests" && grep -q '^ok ' "$work/log"; then continue; fi
    tail -n 3 "$work/log"
    bad "$pair fails without a mutant, or has no such test"
done
while IFS=$tab read -r n suite tests name; do
    run "$n" "$suite" "$tests"
    ended=$?
    if [ "$ended" -ge 128 ]; then                       # by a signal, under which no line of a test is printed
        ok "$name (caught by test_$suite: $tests, which crashes)"
    elif [ "$ended" -ne 0 ] && grep -q '^FAILED ' "$work/log"; then
        ok "$name (caught by test_$suite: $(sed -n 's/^FAILED \([a-z_0-9]*\).*/\1/p' "$work/log" | head -n 1))"
    else
        tail -n 2 "$work/log"
        bad "$name: survives test_$suite: $tests"
    fi
done <"$work/chosen"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
