/* yaml_tree.h - YAML as the tree that its JSON makes, for the suites that look at the chapter >>yaml alone. */
#ifndef YAML_TREE_H
#define YAML_TREE_H

static dcp_status yaml_tree(const char *text, size_t size, dcp_json **out, dcp_error *err) {
    dcpi_yaml y;
    dcp_status status = dcpi_yaml_to_json(text, size, 0, SIZE_MAX, &y, err);
    *out = NULL;
    if (!status) status = dcpi_json_tree(y.out.data, y.out.size, dcpi_yaml_place, &y, out, err);
    dcpi_buffer_free(&y.out);
    return status;
}

#endif
