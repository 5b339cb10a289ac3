/* Compress a tensor, restore it, compare the bytes: the C interface from end to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradwire/gradwire.h"

enum { ROWS = 256, COLUMNS = 512, VALUES = ROWS * COLUMNS };

/* Every call returns 0 or an error kind; the sentence is kept for the calling thread. */
static void check(int kind) {
  if (kind == GRADWIRE_OK) return;
  fprintf(stderr, "gradwire error %d: %s\n", kind, gradwire_last_error());
  exit(EXIT_FAILURE);
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory != NULL) return memory;
  fprintf(stderr, "out of memory\n");
  exit(EXIT_FAILURE);
}

/* Something like a gradient: small numbers of both signs, each row with a scale of its own. */
static void fill(float* values) {
  unsigned state = 1;
  for (int i = 0; i < VALUES; ++i) {
    state = state * 1664525u + 1013904223u;
    const float noise = (float)(state >> 8) / 16777216.0f - 0.5f;
    values[i] = noise * noise * noise / (float)(1 + i / COLUMNS % 17);
  }
}

int main(void) {
  const uint64_t dims[] = {ROWS, COLUMNS};
  const size_t bytes = sizeof(float) * VALUES;
  float* gradient = allocate(bytes);
  fill(gradient);

  size_t capacity = 0;
  check(gradwire_compress_bound(GRADWIRE_F32, VALUES, &capacity));
  void* frame = allocate(capacity);
  size_t frame_bytes = 0;
  gradwire_compressor* compressor = NULL;
  check(gradwire_compressor_new("level=2", &compressor));
  check(gradwire_compress(compressor, GRADWIRE_F32, dims, 2, gradient, frame, capacity,
                          &frame_bytes));
  gradwire_compressor_free(compressor);

  /* A receiver learns dtype and shape from the frame. */
  gradwire_dtype dtype = GRADWIRE_U8;
  uint64_t found[8];
  size_t ndim = 8;
  uint64_t restored_bytes = 0;
  check(gradwire_frame_info(frame, frame_bytes, &dtype, found, &ndim, &restored_bytes));
  float* restored = allocate((size_t)restored_bytes);
  size_t written = 0;
  gradwire_decompressor* decompressor = NULL;
  check(gradwire_decompressor_new(&decompressor));
  check(gradwire_decompress(decompressor, frame, frame_bytes, restored, (size_t)restored_bytes,
                            &written));
  gradwire_decompressor_free(decompressor);

  const int same = dtype == GRADWIRE_F32 && ndim == 2 && found[0] == ROWS && found[1] == COLUMNS &&
                   written == bytes && memcmp(gradient, restored, bytes) == 0;
  printf("gradwire %s: %zu bytes in %zu, %s\n", gradwire_version(), bytes, frame_bytes,
         same ? "every bit came back" : "DIFFERENT");
  free(restored);
  free(frame);
  free(gradient);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
