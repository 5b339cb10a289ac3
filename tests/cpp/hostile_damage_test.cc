// Damaged and made-up input must be refused with an Error, read nothing past its end
// (AddressSanitizer sees to that) and ask for no more memory than the budget and its own size
// allow.

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hostile_testing.h"
#include "largest_request_testing.h"

namespace gradwire::testing {
namespace {

/// Hand-made frames of the repository, sound and malformed.
std::vector<Bytes> made_frames() {
  std::vector<Bytes> frames;
  for (const char* folder : {"/malformed", "/golden"}) {
    const std::filesystem::path path = std::string(GRADWIRE_TESTS_DIR) + folder;
    if (!std::filesystem::is_directory(path)) continue;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".gw" && entry.file_size() < 20000)
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      frames.emplace_back(text.begin(), text.end());
    }
  }
  return frames;
}

Bytes mutated(Bytes bytes, const Bytes& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
  };
  const auto at = [&](Bytes& b, std::size_t i) {
    return b.begin() + static_cast<std::ptrdiff_t>(i);
  };
  for (std::size_t k = 1 + below(4); k > 0 && !bytes.empty(); --k) {
    const std::size_t i = below(bytes.size());
    switch (below(8)) {
      case 0:
        bytes[i] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        bytes[i] = static_cast<std::uint8_t>(bytes[i] + 1);
        break;
      case 2:
        bytes[i] = static_cast<std::uint8_t>(bytes[i] - 1);
        break;
      case 3:
        bytes[i] = random() % 2 == 0 ? 0xFF : 0;
        break;
      case 4:
        bytes[i] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 5:
        bytes.insert(at(bytes, i), static_cast<std::uint8_t>(random()));
        break;
      case 6:
        bytes.erase(at(bytes, i));
        break;
      default:
        for (std::size_t n = below(20), from = below(other.size());
             n > 0 && from < other.size() && i + n < bytes.size(); --n) {
          bytes[i + n] = other[from++];
        }
    }
  }
  // Half of the time the frame's length is put right, so that inserted and erased bytes reach the
  // sections.
  if (bytes.size() > 10 && bytes.size() < 9 + 128 && random() % 2 == 0)
    bytes[8] = static_cast<std::uint8_t>(bytes.size() - 9);
  if (bytes.size() > 10 + 128 && bytes.size() < 10 + 16384 && random() % 2 == 0) {
    bytes[8] = static_cast<std::uint8_t>((bytes.size() - 10) | 128);
    bytes[9] = static_cast<std::uint8_t>((bytes.size() - 10) >> 7);
  }
  return bytes;
}

TEST(Hostile, RandomDamageIsSafeAndStaysWithinTheBudget) {
  std::vector<Bytes> seeds = made_frames();
  for (const NamedFrame& named : small_frames()) seeds.push_back(named.frame);
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    const Bytes input =
        exact(mutated(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
    largest_request = 0;
    exercise(input, random() % 4 == 0);
    // Buffers of one chunk of 65536 elements, and lines of a view of at most n / 4 + 65536.
    ASSERT_LE(largest_request.load(), std::size_t{2} << 20) << "trial " << trial;
  }
}

TEST(Hostile, RandomBytesBehindASoundPreludeAreSafe) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 20000; ++trial) {
    Bytes body;
    // Sections in order, of random content.
    for (unsigned id = 1; id <= 9; ++id) {
      if (id > 1 && random() % 3 == 0) continue;
      const std::size_t n = random() % 30;
      body.push_back(static_cast<std::uint8_t>(id));
      body.push_back(static_cast<std::uint8_t>(n));
      for (std::size_t k = 0; k < n; ++k)
        body.push_back(static_cast<std::uint8_t>(random() % (random() % 2 == 0 ? 4 : 256)));
    }
    if (body.size() > 127) body.resize(127);
    Bytes frame{'G', 'R', 'D', 'W', 0, 1, 0, 0, static_cast<std::uint8_t>(body.size())};
    frame.insert(frame.end(), body.begin(), body.end());
    largest_request = 0;
    exercise(exact(frame), true);
    ASSERT_LE(largest_request.load(), std::size_t{2} << 20) << "trial " << trial;
  }
}

}  // namespace
}  // namespace gradwire::testing
