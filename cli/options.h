// Options that several commands share, and how their text is read.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "gradwire/options.h"
#include "source.h"

namespace gradwire::cli {

/// How to compress.
struct CodecFlags {
  int level = 2;
  std::string coder = "auto";
  std::string tables = "hybrid";
  std::string zeros = "auto";
  int threads = 1;
  bool no_checksum = false;
  bool no_pairs = false;
};
void add_codec_flags(CLI::App& command, CodecFlags& flags, bool with_tables = true);
CompressOptions compress_options(const CodecFlags& flags);

/// How to read raw input.
struct RawFlags {
  std::string dtype;
  std::string shape;
};
void add_raw_flags(CLI::App& command, RawFlags& flags);
RawLayout raw_layout(const RawFlags& flags);

/// Limits and speed of decoding.
struct DecodeFlags {
  int threads = 1;
  std::string max_output;
};
void add_decode_flags(CLI::App& command, DecodeFlags& flags);
DecompressOptions decompress_options(const DecodeFlags& flags);

/// What to do with files.
struct OutputFlags {
  std::string output;
  bool force = false;
  bool keep = false;
  bool remove = false;
  bool quiet = false;
};
void add_output_flags(CLI::App& command, OutputFlags& flags);

/// The positional FILES.
void add_files(CLI::App& command, std::vector<std::string>& files, const std::string& meaning);

/// 0 means all cores.
int thread_count(int threads);

/// "1048576", "64K", "1.5M", "1G": units of 1024.
std::uint64_t parse_byte_count(const std::string& text);

/// "10,20".
std::vector<std::uint64_t> parse_shape(const std::string& text);

/// "A:B" within `count` elements; A and B may be left out.
std::pair<std::uint64_t, std::uint64_t> parse_range(const std::string& text, std::uint64_t count);

}  // namespace gradwire::cli
