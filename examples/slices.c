/* slices.c - a field that was saved in pieces, of which any box can be loaded.
 *
 * Shows dcp_piece: each tile of a simulation saves its part of one global 2-D field, straight out of memory
 * that has ghost cells around it (a stride says how far apart the rows are). The checkpoint holds the global
 * field, so a reader may ask for any box, cut any way, or for the whole. Here one process holds all four
 * tiles; with several ranks each would pass its own. Does not show ranks: that needs a coordinator.
 *
 * Build: cc -O2 slices.c -I.. -o slices -lm -pthread
 * Run:   ./slices [directory]          (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 48, COLUMNS = 64, TILE_ROWS = ROWS / 2, TILE_COLUMNS = COLUMNS / 2, GHOST = 1 };
typedef struct tile { float cells[TILE_ROWS + 2 * GHOST][TILE_COLUMNS + 2 * GHOST]; } tile;
static const int64_t field_shape[] = {ROWS, COLUMNS};
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

static float value_at(int64_t row, int64_t column) { return (float)(row * 1000 + column); }

int main(int argc, char **argv) {
    static tile tiles[4];
    dcp_tensor pieces[4];
    char path[512];
    snprintf(path, sizeof path, "%s/slices", argc > 1 ? argv[1] : "checkpoints");

    for (int t = 0; t < 4; t++) {
        const int64_t tile_shape[] = {TILE_ROWS, TILE_COLUMNS};
        const int64_t offset[] = {t / 2 * TILE_ROWS, t % 2 * TILE_COLUMNS};
        for (int r = 0; r < TILE_ROWS; r++)
            for (int c = 0; c < TILE_COLUMNS; c++)
                tiles[t].cells[r + GHOST][c + GHOST] = value_at(offset[0] + r, offset[1] + c);
        pieces[t] = dcp_array("field", DCP_FP32, &tiles[t].cells[GHOST][GHOST], 2, tile_shape);
        pieces[t].stride[0] = TILE_COLUMNS + 2 * GHOST;                 /* elements from row to row */
        pieces[t].stride[1] = 1;
        dcp_piece(&pieces[t], field_shape, offset);
    }
    dcp_save_desc save = DCP_ZERO;
    save.path = path;
    save.io.log = dcp_log_stderr;
    save.tensors = pieces;
    save.tensor_count = 4;
    save.overwrite = 1;
    check(dcp_save(&save, &err), "save");

    /* A box that touches all four tiles, every element into the last column of a wider array. */
    const int64_t box_shape[] = {10, 12}, box_offset[] = {TILE_ROWS - 5, TILE_COLUMNS - 7};
    static float box[10][12][3], whole[ROWS][COLUMNS];
    dcp_tensor wanted[] = {dcp_array("field", DCP_FP32, &box[0][0][2], 2, box_shape),
                           dcp_array("field", DCP_FP32, whole, 2, field_shape)};
    wanted[0].stride[0] = 12 * 3;
    wanted[0].stride[1] = 3;
    dcp_piece(&wanted[0], field_shape, box_offset);
    for (int i = 0; i < 2; i++) {
        dcp_load_desc load = DCP_ZERO;
        load.path = path;
        load.io.log = dcp_log_stderr;
        load.tensors = &wanted[i];
        load.tensor_count = 1;
        check(dcp_load(&load, &err), "load");
    }

    int wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) wrong += whole[r][c] != value_at(r, c);
    for (int r = 0; r < 10; r++)
        for (int c = 0; c < 12; c++)
            wrong += box[r][c][2] != value_at(box_offset[0] + r, box_offset[1] + c) || box[r][c][0] != 0;
    if (wrong != 0) {
        fprintf(stderr, "%d elements are wrong\n", wrong);
        return 1;
    }
    printf("proved: a box across four strided pieces, and the whole field, came back correct\n");
    return 0;
}
