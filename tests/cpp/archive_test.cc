#include "api/source_header.h"
#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// A safetensors header: the length, then the text.
Bytes header_of(std::string_view text) {
  Bytes header(8);
  const std::uint64_t size = text.size();
  std::memcpy(header.data(), &size, 8);
  header.insert(header.end(), text.begin(), text.end());
  return header;
}

struct Named {
  std::string name;
  Owned tensor;
};

Bytes write(const std::vector<Named>& tensors, SourceKind kind, const Bytes& header,
            const CompressOptions& options = {}) {
  ArchiveWriter writer(options);
  writer.set_source(kind, header);
  for (const Named& named : tensors) writer.add(named.name, named.tensor.view());
  return exact(writer.finish());
}

void expect_contents(const Bytes& archive, const std::vector<Named>& tensors, SourceKind kind,
                     const Bytes& header) {
  EXPECT_TRUE(is_archive(archive));
  EXPECT_EQ(frame_size(archive), archive.size());
  const ArchiveReader reader(archive);
  EXPECT_EQ(reader.source_kind(), kind);
  EXPECT_TRUE(reader.source_header() == header) << "another source header came back";
  ASSERT_EQ(reader.size(), tensors.size());
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const auto& [name, tensor] = tensors[k];
    EXPECT_EQ(reader.name(k), name);
    EXPECT_EQ(reader.find(name), k);
    const Tensor back = reader.tensor(k);
    EXPECT_EQ(back.dtype, tensor.dtype);
    EXPECT_EQ(back.shape, tensor.shape);
    EXPECT_TRUE(back.data == tensor.data) << name;
    Bytes out(tensor.data.size());
    reader.tensor_into(k, out);
    EXPECT_TRUE(out == tensor.data) << name;
    const TensorInfo info = reader.info(k);
    EXPECT_EQ(info.name, name);
    EXPECT_EQ(info.original_bytes, tensor.data.size());
    const std::size_t width = element_size(tensor.dtype);
    const std::uint64_t n = tensor.data.size() / width;
    const Bytes slice(tensor.data.begin() + static_cast<std::ptrdiff_t>(n / 3 * width),
                      tensor.data.begin() + static_cast<std::ptrdiff_t>(n / 2 * width));
    EXPECT_TRUE(reader.range(k, n / 3, n / 2) == slice) << name;
  }
}

std::vector<Named> some_tensors(std::uint64_t seed) {
  TensorMaker make(seed);
  return {{"layer.0.weight", make(DType::f32, {20, 30}, Content::normal)},
          {"layer.0.bias", make(DType::f32, {20}, Content::mostly_zero)},
          {"layer.1.weight", make(DType::bf16, {10, 4, 3, 3}, Content::smooth)},
          {"empty", make(DType::f16, {0, 4}, Content::zeros)},
          {"scalar", make(DType::i64, {}, Content::normal)},
          {"mask", make(DType::boolean, {77}, Content::normal)}};
}

/// The header that safetensors' own writer makes of tensors.
std::string compact_json(const std::vector<Named>& tensors, const std::string& metadata) {
  std::string text = "{" + metadata;
  std::size_t offset = 0;
  for (const Named& named : tensors) {
    if (text.back() == '}') text += ',';
    std::string dtype(dtype_name(named.tensor.dtype));
    for (char& c : dtype) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    text += formatted("\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                      named.name, dtype, fmt::join(named.tensor.shape, ","), offset,
                      offset + named.tensor.data.size());
    offset += named.tensor.data.size();
  }
  return text + "}";
}

TEST(Archive, SmallestExample) {
  const Bytes archive = write({}, SourceKind::none, {}, {.checksum = false});
  // Prelude with flag bit 1; tensors: none; directory: count 0, raw_bytes 0; footer: directory at
  // byte 11, no hash.
  EXPECT_EQ(archive, (Bytes{'G', 'R', 'D', 'W', 0, 1, 2, 0, 24, 34, 0, 35, 2, 0, 0, 36, 16,
                            11,  0,   0,   0,   0, 0, 0, 0, 0,  0,  0, 0,  0, 0, 0, 0}));
  expect_contents(archive, {}, SourceKind::none, {});
}

TEST(Archive, TensorsComeBackWithNamesAndOrder) {
  for (const bool checksum : {false, true}) {
    for (int level = 1; level <= 3; ++level) {
      const auto tensors = some_tensors(1);
      const Bytes archive = write(tensors, SourceKind::none, {},
                                  {.level = level, .checksum = checksum, .threads = 2});
      expect_contents(archive, tensors, SourceKind::none, {});
    }
  }
}

TEST(Archive, ManyTensorsWithAlikeNames) {
  TensorMaker make(2);
  std::vector<Named> tensors;
  for (int k = 0; k < 300; ++k) {
    tensors.push_back({formatted("model.layers.{}.attention.{}", k / 3, k % 3),
                       make(DType::f16, {3, 2}, Content::normal)});
  }
  expect_contents(write(tensors, SourceKind::none, {}), tensors, SourceKind::none, {});
}

TEST(Archive, AnyUtf8NameIsAllowed) {
  TensorMaker make(3);
  std::vector<Named> tensors;
  for (const std::string& name :
       {std::string(), std::string("a"),
        std::string("Gewicht \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"), std::string(65535, 'x'),
        std::string(65534, 'x'), std::string("with\0zero", 9),
        std::string("line\nbreak \"quoted\" \\"), std::string("{}")}) {
    tensors.push_back({name, make(DType::u8, {5}, Content::normal)});
  }
  expect_contents(write(tensors, SourceKind::none, {}), tensors, SourceKind::none, {});
}

TEST(Archive, NamesThatNoReaderTakesAreRefusedByTheWriter) {
  const Owned tensor{DType::u8, {1}, {1}};
  for (const std::string& name :
       {std::string(65536, 'x'), std::string("\xFF"), std::string("\xC3"), std::string("\xC0\x80"),
        std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"), std::string("a\x80")}) {
    ArchiveWriter writer;
    expect_error(ErrorKind::invalid_argument, [&] { writer.add(name, tensor.view()); });
  }
}

TEST(Archive, ANameCanBeUsedOnce) {
  const Owned tensor{DType::u8, {1}, {1}};
  ArchiveWriter writer;
  writer.add("a", tensor.view());
  expect_error(ErrorKind::invalid_argument, [&] { writer.add("a", tensor.view()); });
  writer.add("b", tensor.view());
  EXPECT_EQ(ArchiveReader(writer.finish()).size(), 2u);
}

TEST(Archive, AWriterUsedAgainWritesAsANewOne) {
  const std::vector<Named> tensors = some_tensors(4);
  const std::vector<Named> fewer(tensors.begin(), tensors.begin() + 1);
  const Bytes header = header_of(R"({"__metadata__":{"a":"b"}})");
  ArchiveWriter writer;
  for (const auto* given : {&tensors, &tensors, &fewer, &tensors}) {
    for (const bool has_source : {false, true, true, false}) {
      const SourceKind kind = has_source ? SourceKind::npy : SourceKind::none;
      const Bytes source = has_source ? header : Bytes();
      writer.set_source(kind, source);
      for (const Named& named : *given) writer.add(named.name, named.tensor.view());
      Bytes archive;
      writer.finish_into(archive);
      EXPECT_TRUE(archive == write(*given, kind, source));
      EXPECT_EQ(writer.size(), 0u);
    }
  }
}

TEST(Archive, ATensorThatIsRefusedLeavesNoTrace) {
  const Owned tensor{DType::u8, {1}, {1}};
  const Shape wrong{2};
  ArchiveWriter writer;
  expect_error(ErrorKind::invalid_argument,
               [&] { writer.add("a", {DType::u8, wrong, tensor.data}); });
  writer.add("a", tensor.view());
  const Bytes archive = writer.finish();
  const ArchiveReader reader(archive);
  EXPECT_EQ(reader.size(), 1u);
  EXPECT_TRUE(reader.tensor(0).data == tensor.data);
}

TEST(Archive, IndicesAndNamesThatAreNotThereAreTheCallersMistake) {
  const Bytes archive = write(some_tensors(4), SourceKind::none, {});
  const ArchiveReader reader(archive);
  const std::size_t beyond = reader.size();
  Bytes out(4);
  expect_error(ErrorKind::invalid_argument, [&] { reader.name(beyond); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.info(beyond); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.tensor(SIZE_MAX); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.tensor_into(beyond, out); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.tensor_into(0, out); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.range(beyond, 0, 0); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.range(0, 1, 100000); });
  expect_error(ErrorKind::invalid_argument, [&] { reader.find("layer.0.wieght"); });
}

TEST(Archive, EachCallTakesItsOwnKindOfFrame) {
  const Bytes archive = write(some_tensors(5), SourceKind::none, {});
  const Bytes frame = compress(some_tensors(5)[0].tensor.view());
  expect_error(ErrorKind::invalid_argument, [&] { decompress(archive); });
  expect_error(ErrorKind::invalid_argument, [&] { tensor_info(archive); });
  expect_error(ErrorKind::invalid_argument, [&] { ArchiveReader reader(frame); });
}

TEST(Source, AHeaderLikeSafetensorsWritesItIsDerived) {
  const auto tensors = some_tensors(6);
  for (const std::string& metadata :
       {std::string(), std::string("\"__metadata__\":{\"format\":\"pt\"}")}) {
    for (const std::size_t spaces : {0u, 1u, 7u}) {
      const Bytes header = header_of(compact_json(tensors, metadata) + std::string(spaces, ' '));
      const Bytes archive = write(tensors, SourceKind::safetensors, header);
      expect_contents(archive, tensors, SourceKind::safetensors, header);
      // Section `source`: kind, form 1, and little more than the metadata.
      const std::size_t without = write(tensors, SourceKind::none, {}).size();
      EXPECT_LE(archive.size(), without + metadata.size() + 10);
    }
  }
}

TEST(Source, AnyOtherHeaderComesBackVerbatim) {
  const auto tensors = some_tensors(7);
  const std::string plain = compact_json(tensors, "");
  const std::string first = plain.substr(1, plain.find('}'));
  std::vector<Bytes> headers{
      {},
      bytes_of("x"),
      bytes_of("1234567"),
      bytes_of("12345678"),
      bytes_of("12345678{"),
      bytes_of(plain),  // no length
      header_of(""),
      header_of("{}"),
      header_of(" " + plain),
      header_of("\xEF\xBB\xBF" + plain),
      header_of(plain.substr(0, plain.size() - 1)),  // cut
      header_of(plain + "\n"),
      header_of(plain + std::string(70000, ' ')),  // more spaces than the format counts
      header_of("{\"__metadata__\":{\"copy\":\"" + first + "\"}," + plain.substr(1)),
      header_of("{" + first + "," + plain.substr(1)),  // the first entry twice
      header_of(first),
      header_of("{\"a\": 1, " + plain.substr(1)),
      Bytes(3000, ' '),
      Bytes(100000, 0),
  };
  Bytes lying = header_of(plain);
  lying[0] ^= 1;
  headers.push_back(lying);
  std::string spaced = plain;
  spaced.insert(spaced.find(':') + 1, " ");
  headers.push_back(header_of(spaced));
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    Bytes damaged = header_of(plain);
    damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    if (trial % 3 == 0) damaged.resize(random() % damaged.size());
    headers.push_back(damaged);
  }
  for (const Bytes& header : headers) {
    const ArchiveReader reader(write(tensors, SourceKind::safetensors, header));
    EXPECT_TRUE(reader.source_header() == header)
        << std::string(header.begin(), header.end()).substr(0, 300);
  }
}

TEST(Source, NamesThatJsonWouldEscapeKeepTheirSpelling) {
  TensorMaker make(8);
  const std::vector<Named> tensors{{"a\"b\\c\n", make(DType::u8, {4}, Content::normal)}};
  const Bytes header =
      header_of("{\"a\\\"b\\\\c\\n\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}");
  expect_contents(write(tensors, SourceKind::safetensors, header), tensors, SourceKind::safetensors,
                  header);
}

TEST(Source, OtherFilesKeepTheirHeaders) {
  const auto tensors = some_tensors(9);
  const Bytes npy =
      bytes_of("\x93NUMPY\x01\x00{'descr': '<f4', 'fortran_order': False, 'shape': (20, 30)}   \n");
  expect_contents(write(tensors, SourceKind::npy, npy), tensors, SourceKind::npy, npy);
  expect_contents(write(tensors, SourceKind::raw, {}), tensors, SourceKind::raw, {});
}

TEST(Source, IsHeldAgainstTheBudgetToo) {
  const auto tensors = some_tensors(10);
  const Bytes verbatim = write({}, SourceKind::raw, Bytes(100000, 'x'));
  expect_error(ErrorKind::limit, [&] { ArchiveReader reader(verbatim, {.max_output = 99999}); });
  EXPECT_EQ(ArchiveReader(verbatim, {.max_output = 100000}).source_header().size(), 100000u);
  const Bytes header = header_of(compact_json(tensors, "") + std::string(65535, ' '));
  const Bytes derived = write(tensors, SourceKind::safetensors, header);
  ASSERT_LT(derived.size(), 5000u);
  expect_error(ErrorKind::limit,
               [&] { ArchiveReader reader(derived, {.max_output = header.size() - 1}); });
  EXPECT_TRUE(ArchiveReader(derived, {.max_output = header.size()}).source_header() == header);
}

TEST(Budget, IsHeldAgainstTensorsAndRanges) {
  const std::vector<Named> tensors{{"a", {DType::f32, {1000}, Bytes(4000, 1)}}};
  const Bytes archive = write(tensors, SourceKind::none, {});
  const ArchiveReader reader(archive, {.max_output = 3999});
  EXPECT_EQ(reader.info(0).original_bytes, 4000u);
  expect_error(ErrorKind::limit, [&] { reader.tensor(0); });
  EXPECT_EQ(reader.range(0, 0, 999).size(), 3996u);
  expect_error(ErrorKind::limit, [&] { reader.range(0, 0, 1000); });
  Bytes out(4000);
  reader.tensor_into(0, out);  // memory of the caller needs no budget
  EXPECT_TRUE(out == tensors[0].tensor.data);
}

TEST(DeriveSafetensors, TakesNoHeaderThatItDoesNotGiveBack) {
  const std::vector<api::SourceTensor> tensors{{"w", DType::f32, {2, 3}, 24},
                                               {"b", DType::bf16, {}, 2}};
  const Bytes header = header_of(
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}}  ");
  const auto derived = api::derive_safetensors(header, tensors);
  ASSERT_TRUE(derived.has_value());
  EXPECT_TRUE(derived->prefix.empty());
  EXPECT_EQ(derived->spaces, 2u);
  EXPECT_TRUE(api::render_safetensors({}, tensors, 2, UINT64_MAX) == header);
  for (std::size_t at = 0; at < header.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes other = header;
      other[at] = static_cast<std::uint8_t>(other[at] ^ 1u << bit);
      const auto found = api::derive_safetensors(other, tensors);
      if (!found) continue;
      EXPECT_TRUE(api::render_safetensors(found->prefix, tensors, found->spaces, UINT64_MAX) ==
                  other);
    }
  }
}

}  // namespace
}  // namespace gradwire::testing
