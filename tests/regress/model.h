/* regress/model.h - programs that have found something, replayed by test_model.c. Paste what a failure prints at the
 * end, with a name that says what was wrong. Included twice; see tests/model_program.h for the fields. */
PROGRAM(a_sweep_takes_checkpoints_in_dense,
    STEP(SAVE, .path = "dense/a", .tensors = "r"),
    STEP(SAVE, .path = "runs/experts/b", .tensors = "r", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SWEEP, .path = "", .grace = -1, .plain = 1),
    STEP(SWEEP, .path = "runs", .grace = -1, .plain = 1))
PROGRAM(begin_of_a_manifest_returns_before_it_has_read_a_tensor,
    STEP(BEGIN, .path = "dense", .tensors = "r", .layout = DCP_LAYOUT_MANIFEST, .snapshot = 1),
    STEP(WAIT, .path = "dense"),
    STEP(BEGIN, .path = "b", .tensors = "Bb", .layout = DCP_LAYOUT_MANIFEST, .snapshot = 1, .free_tensors = 1))
PROGRAM(a_manifest_with_empty_pieces_does_not_load,
    STEP(SAVE, .path = "step_1", .tensors = "mu", .ranks = 5, .layout = DCP_LAYOUT_MANIFEST),
    STEP(BEGIN, .path = "step_1", .tensors = "zs", .ranks = 5, .layout = DCP_LAYOUT_MANIFEST, .overwrite = 1))
PROGRAM(tensors_that_are_forgotten_replace_a_checkpoint,
    STEP(SAVE, .path = "b", .tensors = "r"),
    STEP(SAVE, .path = "b", .tensors = "r", .forgets = 1, .overwrite = 1))
PROGRAM(an_intent_of_a_time_to_come_stays_for_ever,
    STEP(FOREIGN, .path = "", .what = FOREIGN_INTENT),
    STEP(SAVE, .path = "a", .tensors = "r", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SAVE, .path = "a", .tensors = "s", .layout = DCP_LAYOUT_MANIFEST, .overwrite = 1),
    STEP(SWEEP, .path = "", .grace = -1, .plain = 1))
PROGRAM(all_the_memory_there_is_as_a_budget,
    STEP(SAVE, .path = "step_1", .tensors = "r", .budget = 2),
    STEP(LOAD, .path = "step_1", .budget = 2),
    STEP(SAVE, .path = "b", .tensors = "r", .layout = DCP_LAYOUT_MANIFEST, .budget = 2),
    STEP(SYNC, .path = "b", .to = "copy", .budget = 2))
PROGRAM(a_storage_that_cannot_publish_alone_replaces_files_of_the_pool,
    STEP(SAVE, .path = "dense", .tensors = "s", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SAVE, .path = "a", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SAVE, .path = "a", .tensors = "s", .layout = DCP_LAYOUT_MANIFEST, .overwrite = 1, .lacks = 8))
PROGRAM(a_storage_that_cannot_sync_a_directory_makes_none,
    STEP(SAVE, .path = "runs/step_1", .lacks = 32))
PROGRAM(two_layouts_at_one_path,
    STEP(SAVE, .path = "a", .tensors = "b", .at_once = 1),
    STEP(SAVE, .path = "a", .tensors = "b", .layout = DCP_LAYOUT_MANIFEST, .at_once = 1),
    STEP(SAVE, .path = "a", .tensors = "b", .layout = DCP_LAYOUT_SINGLE, .at_once = 1),
    STEP(SAVE, .path = "a", .tensors = "b", .layout = DCP_LAYOUT_MANIFEST, .yaml = 1))
PROGRAM(two_overwrites_of_one_path,
    STEP(SAVE, .path = "a", .tensors = "r"),
    STEP(SAVE, .path = "a", .tensors = "r", .overwrite = 1, .at_once = 1, .process = 1),
    STEP(SAVE, .path = "a", .tensors = "r", .overwrite = 1, .at_once = 1, .process = 1),
    STEP(SAVE, .path = "a", .tensors = "r", .overwrite = 1))
PROGRAM(a_save_that_stood_still,
    STEP(SAVE, .path = "a", .tensors = "r"),
    STEP(SAVE, .path = "a", .tensors = "r", .overwrite = 1, .process = 1, .stop_at = 50),
    STEP(SAVE, .path = "a", .tensors = "s", .overwrite = 1),
    STEP(WAKE, .path = "a"))
PROGRAM(a_slow_read_of_one_rank,
    STEP(SAVE, .path = "step_2", .tensors = "s", .layout = DCP_LAYOUT_MANIFEST),
    STEP(LOAD, .path = "step_2", .slow = FAULT_READ, .slow_ms = 700, .rank = 1, .ranks = 2, .timeout_ms = 300))
PROGRAM(a_save_in_the_background_beside_a_removal,
    STEP(BEGIN, .path = "runs/step_1", .slot = 1),
    STEP(REMOVE, .path = "runs/step_1"),
    STEP(BEGIN, .path = "runs/step_1"))
PROGRAM(part_of_a_tensor_for_the_whole,
    STEP(FOREIGN, .path = "", .what = FOREIGN_PARTS))
PROGRAM(a_signed_document_whose_files_have_no_digest,
    STEP(FOREIGN, .path = "", .what = FOREIGN_UNCOVERED))
PROGRAM(a_quarter_of_a_gigabyte_of_nothing,
    STEP(FOREIGN, .path = "", .what = FOREIGN_SPARSE),
    STEP(SAVE, .path = "a", .tensors = "r"),
    STEP(LATEST, .path = ""),
    STEP(SWEEP, .path = "", .grace = -1))
PROGRAM(a_document_that_may_not_be_read,
    STEP(FOREIGN, .path = "", .what = FOREIGN_SECRET),
    STEP(SAVE, .path = "dense", .tensors = "r"),
    STEP(SAVE, .path = "a", .tensors = "r", .layout = DCP_LAYOUT_MANIFEST))
PROGRAM(a_model_id_of_six_thousand_bytes,
    STEP(SAVE, .path = "runs/b"),
    STEP(SAVE, .path = "runs/step_1", .layout = DCP_LAYOUT_MANIFEST, .model_id = 1),
    STEP(SAVE, .path = "runs/a"))
PROGRAM(numbers_in_what_is_no_document,
    STEP(SAVE, .path = "a", .tensors = "r"),
    STEP(FOREIGN, .path = "", .what = FOREIGN_NUMBER),
    STEP(FOREIGN, .path = "", .what = FOREIGN_NUMBER_DEEP),
    STEP(FOREIGN, .path = "", .what = FOREIGN_YAML),
    STEP(SAVE, .path = "b", .tensors = "r"),
    STEP(PRUNE, .path = "", .keep = 1))
PROGRAM(documents_that_claim_what_is_not_theirs,
    STEP(SAVE, .path = "step_1", .tensors = "r"),
    STEP(FOREIGN, .path = "", .what = FOREIGN_CLAIM_OTHERS),
    STEP(REMOVE, .path = "claim"),
    STEP(FOREIGN, .path = "", .what = FOREIGN_CLAIM),
    STEP(REMOVE, .path = "claim"))
PROGRAM(a_manifest_that_replaces_programs,
    STEP(FOREIGN, .path = "copy", .what = FOREIGN_PROGRAM),
    STEP(FOREIGN, .path = "runs", .what = FOREIGN_CLAIM_MANIFEST),
    STEP(SYNC, .path = "runs/evil", .to = "copy"))
PROGRAM(the_newest_is_damaged_and_the_only_good_one_is_pruned,
    STEP(SAVE, .path = "dense", .tensors = "r"),
    STEP(SAVE, .path = "step_1", .tensors = "r"),
    STEP(FLIP, .path = "step_1", .what = 2),
    STEP(PRUNE, .path = ""))
PROGRAM(calls_with_different_roots,
    STEP(MEET, .path = "", .ranks = 2, .odd = 2, .timeout_ms = 300),
    STEP(MEET, .path = "", .ranks = 3, .what = 2, .odd = 1, .timeout_ms = 300))
PROGRAM(a_load_whose_message_arrives_and_says_it_did_not,
    STEP(SAVE, .path = "dense", .tensors = "r", .layout = DCP_LAYOUT_SINGLE),
    STEP(LOAD, .path = "dense", .arrives_at = 2, .rank = 3, .ranks = 5))
PROGRAM(a_storage_that_says_it_is_not_there,
    STEP(SAVE, .path = "step_1", .call = 1, .times = 1, .sys = 2),
    STEP(SAVE, .path = "step_1", .call = 1, .times = 1, .sys = 2, .fault = FAULT_LOCK_NOTE))
PROGRAM(a_path_through_a_file,
    STEP(SAVE, .path = "step_1", .tensors = "r"),
    STEP(SAVE, .path = "step_1_shard_0.bin/a", .tensors = "r"),
    STEP(LOAD, .path = "step_1_shard_0.bin/a"),
    STEP(LATEST, .path = "step_1_shard_0.bin"))
PROGRAM(no_memory_for_the_list_of_what_went,
    STEP(SAVE, .path = "a", .tensors = "us", .layout = DCP_LAYOUT_MANIFEST),
    STEP(REMOVE, .path = "a", .memory_at = 173, .for_ever = 1, .rank = 2, .ranks = 5))
PROGRAM(a_live_rank_leaves_its_file_when_another_dies,
    STEP(SAVE, .path = "a", .tensors = "s", .ranks = 3, .rank = 2, .dead_at = 8, .timeout_ms = 300),
    STEP(SAVE, .path = "b", .tensors = "s", .ranks = 3, .rank = 2, .dead_at = 14, .timeout_ms = 300),
    STEP(SAVE, .path = "step_1", .tensors = "s", .ranks = 3, .rank = 0, .dead_at = 20, .timeout_ms = 300))
PROGRAM(an_error_is_that_of_the_status,
    STEP(LOAD, .path = "experts/tier_0/group_1/a", .memory_at = 6, .for_ever = 1, .ranks = 5))
PROGRAM(what_is_not_there_goes_below_a_file,
    STEP(SAVE, .path = "step_1"),
    STEP(SYNC, .path = "experts/a", .to = "step_1_shard_0.bin"),
    STEP(CONVERT, .path = "dense/a", .to = "step_1_shard_0.bin/a"))
PROGRAM(a_rename_that_happened_and_says_it_may_not,
    STEP(BEGIN, .path = "b", .call = 1, .times = 1, .sys = 1, .fault = FAULT_COMMIT, .how = FAULT_AFTER))
PROGRAM(a_sync_counts_on_files_of_a_save_that_fails,
    STEP(SAVE, .path = "step_1", .tensors = "F", .layout = DCP_LAYOUT_MANIFEST),
    STEP(BEGIN, .path = "runs/b", .tensors = "F", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SAVE, .path = "runs/b"),
    STEP(SYNC, .path = "step_1", .to = "runs"))
PROGRAM(a_sync_onto_itself_brings_back_the_older_one,
    STEP(BEGIN, .path = "a_shard_0", .layout = DCP_LAYOUT_MANIFEST),
    STEP(BEGIN, .path = "a_shard_0", .layout = DCP_LAYOUT_MANIFEST, .overwrite = 1, .slot = 1),
    STEP(SYNC, .path = "a_shard_0"),
    STEP(BEGIN, .path = "a_shard_0", .layout = DCP_LAYOUT_MANIFEST, .overwrite = 1))
PROGRAM(a_server_that_says_once_that_a_document_is_not_there,
    STEP(SAVE, .path = "runs/a"),
    STEP(SWEEP, .path = "runs", .call = 23, .times = 1, .sys = 2, .fault = FAULT_ANY, .grace = -1, .plain = 1))
PROGRAM(a_signed_copy_of_an_unsigned_one,
    STEP(SAVE, .path = "router/a", .layout = DCP_LAYOUT_MANIFEST),
    STEP(SAVE, .path = "runs/runs/a", .layout = DCP_LAYOUT_MANIFEST, .sign = 1),
    STEP(SYNC, .path = "router/a", .to = "runs/runs"),
    STEP(LOAD, .path = "runs/runs/a", .verifier = 1))
PROGRAM(a_remove_that_says_that_there_is_none,
    STEP(BEGIN, .path = "runs/b"),
    STEP(REMOVE, .path = "runs/b", .call = 2, .times = 1, .sys = 2, .fault = FAULT_LIST))
PROGRAM(a_sweep_leaves_its_own_file_and_says_that_all_is_well,
    STEP(SWEEP, .path = "router", .call = 1, .times = 3, .sys = 5, .fault = FAULT_REMOVE, .grace = -1))
PROGRAM(the_data_of_a_foreign_document_that_was_pruned,
    STEP(SAVE, .path = "a.v1"),
    STEP(FLIP, .path = "a.v1"),
    STEP(SAVE, .path = "step_2"),
    STEP(FOREIGN, .path = "", .what = FOREIGN_SEED),
    STEP(PRUNE, .path = ""),
    STEP(REMOVE, .path = "a.v1"),
    STEP(SWEEP, .path = "", .grace = -1, .plain = 1))
PROGRAM(retention_takes_no_other_series,
    STEP(SAVE, .path = "step_x"),
    STEP(SAVE, .path = "step_1"),
    STEP(SAVE, .path = "step_10", .keep = 1))
PROGRAM(retention_keeps_what_was_mapped,
    STEP(SAVE, .path = "step_10"),
    STEP(SAVE, .path = "step_2"),
    STEP(MAP, .path = "step_10"),
    STEP(SAVE, .path = "step_1", .keep = 2))
PROGRAM(what_killed_saves_left_goes_with_the_next,
    STEP(SAVE, .path = "step_1", .process = 1, .kill_at = 6),
    STEP(SAVE, .path = "step_2", .tensors = "sr", .layout = DCP_LAYOUT_MANIFEST, .process = 1, .kill_at = 24),
    STEP(SAVE, .path = "step_3", .tensors = "sr"))
PROGRAM(a_manifest_without_a_step_goes_with_a_prune,
    STEP(SAVE, .path = "step_x", .layout = DCP_LAYOUT_MANIFEST, .step = 2),
    STEP(SAVE, .path = "step_2"),
    STEP(PRUNE, .path = "", .every = 1))
