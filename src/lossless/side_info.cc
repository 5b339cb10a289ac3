#include "lossless/side_info.h"

#include <algorithm>

#include "base/bits.h"
#include "base/count_bytes.h"
#include "base/fail.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::lossless {
namespace {

using predict::Grid;

constexpr std::int32_t kScaleLimit = 32768;

bool is_live(const std::vector<std::uint8_t>& dead, std::size_t i) noexcept {
  return dead.empty() || dead[i] == 0;
}

template <typename T>
std::vector<std::int32_t> live_values(const std::vector<T>& values,
                                      const std::vector<std::uint8_t>& dead) {
  std::vector<std::int32_t> live;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_live(dead, i)) live.push_back(values[i]);
  }
  return live;
}

std::size_t live_count(std::size_t n, const std::vector<std::uint8_t>& dead) {
  return n - static_cast<std::size_t>(std::count(dead.begin(), dead.end(), std::uint8_t{1}));
}

void read_dead(const frame::Span& span, std::size_t rows, std::size_t columns, Grid& grid) {
  ByteReader in = span.reader();
  const unsigned flags = in.u8("dead flags");
  if (flags < 1 || flags > 3)
    fail(ErrorKind::corrupt, "dead flags at byte {}: {} found, 1 to 3 allowed", span.offset, flags);
  if (flags & 1) {
    grid.row_dead.resize(rows);
    entropy::read_flags(in, grid.row_dead, "dead rows");
  }
  if (flags & 2) {
    grid.column_dead.resize(columns);
    entropy::read_flags(in, grid.column_dead, "dead columns");
  }
  in.expect_end("dead");
}

std::vector<std::int16_t> read_scale_line(ByteReader& in, std::size_t n,
                                          const std::vector<std::uint8_t>& dead,
                                          const char* field) {
  std::vector<std::int32_t> live(live_count(n, dead));
  entropy::read_integers(in, live, -kScaleLimit, kScaleLimit - 1, field);
  std::vector<std::int16_t> scales(n, 0);
  std::size_t k = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (is_live(dead, i)) scales[i] = static_cast<std::int16_t>(live[k++]);
  }
  return scales;
}

std::vector<std::uint8_t> read_sign_line(ByteReader& in, std::size_t n,
                                         const std::vector<std::uint8_t>& dead, const char* field) {
  const std::size_t at = in.offset();
  BitReader bits(in.bytes(field, (live_count(n, dead) + 7) / 8));
  std::vector<std::uint8_t> signs(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (is_live(dead, i)) signs[i] = static_cast<std::uint8_t>(bits.get(1));
  }
  if (!bits.at_exact_end())
    fail(ErrorKind::corrupt, "{} at byte {}: padding bits are not zero", field, at);
  return signs;
}

void write_sign_line(const std::vector<std::uint8_t>& signs, const std::vector<std::uint8_t>& dead,
                     Bytes& out) {
  Bytes bits(signs.size() / 8 + 16);
  BitWriter writer(bits.data());
  for (std::size_t i = 0; i < signs.size(); ++i) {
    if (is_live(dead, i)) writer.put(signs[i], 1);
  }
  bits.resize(writer.finish());
  out.insert(out.end(), bits.begin(), bits.end());
}

void check_presence(const frame::TensorBody& body, frame::Section id, bool expected) {
  if (body[id].present == expected) return;
  fail(ErrorKind::corrupt, "section {}: {} by the modes of this tensor", frame::section_name(id),
       expected ? "required" : "must be absent");
}

}  // namespace

Grid read_grid(const frame::TensorBody& body) {
  Grid grid;
  const ScaledParameters& p = body.header.scaled;
  const bool scaled = body.header.pipeline == frame::Pipeline::scaled;
  const bool signs = scaled && p.sign_mode == SignMode::rank_one;
  check_presence(body, frame::Section::scales, scaled && p.has_scales);
  check_presence(body, frame::Section::signs, signs);
  const bool dead = body[frame::Section::dead].present;
  if (dead && !scaled) check_presence(body, frame::Section::dead, false);
  if (!dead && !signs && !(scaled && p.has_scales)) return grid;
  if (body.header.rows() + p.columns > side_limit(body.header.elements)) {
    fail(ErrorKind::corrupt, "columns: a view of {} x {} has too many lines for {} elements",
         body.header.rows(), p.columns, body.header.elements);
  }
  const auto rows = static_cast<std::size_t>(body.header.rows());
  const auto columns = static_cast<std::size_t>(p.columns);
  if (dead) read_dead(body[frame::Section::dead], rows, columns, grid);
  if (p.has_scales) {
    ByteReader in = body[frame::Section::scales].reader();
    grid.column_scales = read_scale_line(in, columns, grid.column_dead, "column scales");
    grid.row_scales = read_scale_line(in, rows, grid.row_dead, "row scales");
    in.expect_end("scales");
  }
  if (signs) {
    ByteReader in = body[frame::Section::signs].reader();
    grid.row_signs = read_sign_line(in, rows, grid.row_dead, "row signs");
    grid.column_signs = read_sign_line(in, columns, grid.column_dead, "column signs");
    in.expect_end("signs");
  }
  return grid;
}

bool has_dead(const Grid& grid) noexcept {
  return !grid.row_dead.empty() || !grid.column_dead.empty();
}

Bytes write_dead(const Grid& grid) {
  Bytes out;
  if (!has_dead(grid)) return out;
  ByteWriter writer(out);
  writer.u8(static_cast<std::uint8_t>((grid.row_dead.empty() ? 0 : 1) |
                                      (grid.column_dead.empty() ? 0 : 2)));
  if (!grid.row_dead.empty()) entropy::write_flags(grid.row_dead, writer);
  if (!grid.column_dead.empty()) entropy::write_flags(grid.column_dead, writer);
  return out;
}

Bytes write_scales(const Grid& grid) {
  Bytes out;
  ByteWriter writer(out);
  entropy::write_integers(live_values(grid.column_scales, grid.column_dead), writer);
  entropy::write_integers(live_values(grid.row_scales, grid.row_dead), writer);
  return out;
}

Bytes write_signs(const Grid& grid) {
  Bytes out;
  write_sign_line(grid.row_signs, grid.row_dead, out);
  write_sign_line(grid.column_signs, grid.column_dead, out);
  return out;
}

std::size_t live_mask(const Grid& grid, const ScaledParameters& parameters, std::uint64_t first,
                      std::size_t n, std::uint8_t* mask) {
  if (!has_dead(grid)) return n;
  const auto columns = static_cast<std::size_t>(parameters.columns);
  auto row = static_cast<std::size_t>((first + parameters.origin) / columns);
  auto column = static_cast<std::size_t>((first + parameters.origin) % columns);
  std::size_t live = 0;
  for (std::size_t i = 0; i < n; ++row, column = 0) {
    const std::size_t in_row = std::min(columns - column, n - i);
    if (!is_live(grid.row_dead, row) || grid.column_dead.empty()) {
      std::fill_n(mask + i, in_row, std::uint8_t{is_live(grid.row_dead, row)});
    } else {
      for (std::size_t j = 0; j < in_row; ++j) mask[i + j] = grid.column_dead[column + j] == 0;
    }
    live += count_byte(mask + i, in_row, 1);
    i += in_row;
  }
  return live;
}

}  // namespace gradwire::lossless
