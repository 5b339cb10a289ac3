#include "lossless/table_set.h"

#include "base/fail.h"

namespace gradwire::lossless {

std::vector<entropy::Table> read_tables(const frame::Span& span) {
  std::vector<entropy::Table> tables;
  if (!span.present) return tables;
  ByteReader in = span.reader();
  const std::uint64_t count = in.count("table count", entropy::kMaxTables);
  if (count == 0)
    fail(ErrorKind::corrupt, "table count at byte {}: 0 found, 1 to {} allowed", span.offset,
         entropy::kMaxTables);
  for (std::uint64_t t = 0; t < count; ++t) tables.push_back(entropy::read_table(in));
  in.expect_end("tables");
  return tables;
}

Bytes write_tables(const std::vector<entropy::Table>& tables) {
  Bytes out;
  if (tables.empty()) return out;
  ByteWriter writer(out);
  writer.varint(tables.size());
  for (const entropy::Table& table : tables) entropy::write_table(table, writer);
  return out;
}

void DecoderSet::add(const std::vector<entropy::Table>& tables, std::size_t index,
                     unsigned alphabet, std::uint64_t symbols, const char* where) {
  if (index >= tables.size()) {
    fail(ErrorKind::corrupt, "{}: table index {} found, there are {} tables", where, index,
         tables.size());
  }
  if (decoders_[index]) return;
  entropy::Table table = tables[index];
  entropy::resolve(table, alphabet, where);
  decoders_[index] = entropy::make_decoder(table, symbols);
}

}  // namespace gradwire::lossless
