 *
 * >>contents    Search for these tokens. Each chapter calls earlier ones only.
 *
 *   0 what a user reads    >>about >>contents >>guarantees >>layout
 *   1 declarations         >>api_base       statuses, errors, ownership, what every operation shares
 *                          >>api_model      tensors, pieces, placements
 *                          >>api_save       dcp_save; dcp_saver_*, dcp_save_begin, dcp_save_poll, dcp_save_wait
 *                          >>api_load       dcp_load, dcp_open, dcp_read, dcp_map, dcp_verify; dcp_latest, dcp_list,
 *                                           dcp_prune, dcp_sweep, dcp_remove
 *                          >>api_documents  dcp_metadata_*, dcp_manifest_*, dcp_validation_*, dcp_json_*,
 *                          dcp_yaml_parse
 *                          >>api_plug       dcp_storage, dcp_coordinator, dcp_device, dcp_signer, dcp_verifier
 *                          >>config         limits and switches
 *   2 foundations          >>compiler >>core >>platform >>sha256 >>json >>yaml >>integrity
 *   3 model                >>boxes >>meta >>manifest >>file
 *   4 borders              >>storage >>coord >>index
 *   5 the stories          >>stream >>save >>async >>load >>lazy
 *   6 end                  >>inspect >>sync >>end
