/* gradwire's C interface: opaque handles, plain buffers, error kinds.
 * Every function returns 0 or a gradwire_error kind; gradwire_last_error() then holds the sentence
 * (of the calling thread). Thread-safe; a context is for one thread at a time. */
#ifndef GRADWIRE_H_
#define GRADWIRE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Same numbers as the wire ids in docs/format.md, "dtype". */
typedef enum {
  GRADWIRE_F32 = 1,
  GRADWIRE_BF16,
  GRADWIRE_F16,
  GRADWIRE_F64,
  GRADWIRE_F8_E4M3,
  GRADWIRE_F8_E5M2,
  GRADWIRE_I8,
  GRADWIRE_U8,
  GRADWIRE_I16,
  GRADWIRE_U16,
  GRADWIRE_I32,
  GRADWIRE_U32,
  GRADWIRE_I64,
  GRADWIRE_U64,
  GRADWIRE_BOOL,
  GRADWIRE_DTYPE_FORCE_INT = 0x7FFFFFFF /* no dtype; so that any int can be passed and refused */
} gradwire_dtype;

typedef enum {
  GRADWIRE_OK = 0,
  GRADWIRE_INVALID_ARGUMENT = 1,
  GRADWIRE_UNSUPPORTED = 2,
  GRADWIRE_TRUNCATED = 3,
  GRADWIRE_CORRUPT = 4,
  GRADWIRE_LIMIT = 5,
  GRADWIRE_TRANSPORT = 6,
  GRADWIRE_IO = 7,
  GRADWIRE_NO_MEMORY = 8
} gradwire_error;

/* Options as text: "" for the defaults, or
 * "level=3,coder=huffman,tables=hybrid,threads=2,checksum=false". */
typedef struct gradwire_compressor gradwire_compressor;
typedef struct gradwire_decompressor gradwire_decompressor;

const char* gradwire_version(void);
const char* gradwire_last_error(void);

int gradwire_compress_bound(gradwire_dtype dtype, uint64_t elements, size_t* bound);

int gradwire_compressor_new(const char* options, gradwire_compressor** out);
void gradwire_compressor_free(gradwire_compressor* compressor);
/* dims: ndim sizes; data: contiguous; writes at most `capacity` bytes to dst and their number to
 * *written. */
int gradwire_compress(gradwire_compressor* compressor, gradwire_dtype dtype, const uint64_t* dims,
                      size_t ndim, const void* data, void* dst, size_t capacity, size_t* written);

int gradwire_decompressor_new(gradwire_decompressor** out);
void gradwire_decompressor_free(gradwire_decompressor* decompressor);
/* What a frame holds: *ndim in: room in dims (0 to ask), out: number of dimensions. */
int gradwire_frame_info(const void* frame, size_t size, gradwire_dtype* dtype, uint64_t* dims,
                        size_t* ndim, uint64_t* bytes);
int gradwire_decompress(gradwire_decompressor* decompressor, const void* frame, size_t size,
                        void* dst, size_t capacity, size_t* written);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_H_ */
