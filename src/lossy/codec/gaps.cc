#include "lossy/codec/gaps.h"

#include "base/fail.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::lossy {

void write_gaps(std::span<const std::uint32_t> indices, std::vector<std::int32_t>& gaps,
                ByteWriter& out) {
  gaps.resize(indices.size());
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    gaps[i] = static_cast<std::int32_t>(indices[i] - next);
    next = indices[i] + 1;
  }
  entropy::write_distances(gaps, out);
}

void read_gaps(ByteReader& in, std::uint64_t n, const char* field, std::vector<std::int32_t>& gaps,
               std::span<std::uint32_t> indices) {
  const std::size_t at = in.offset();
  gaps.resize(indices.size());
  entropy::read_integers(in, gaps, 0, static_cast<std::int32_t>(n - indices.size()), field);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    next += static_cast<std::uint64_t>(gaps[i]);
    if (next >= n)
      fail(ErrorKind::corrupt, "{} at byte {}: gap {} leads to element {}, there are {}", field, at,
           i, next, n);
    indices[i] = static_cast<std::uint32_t>(next++);
  }
}

}  // namespace gradwire::lossy
