// In: files, or folders searched for files, as arguments; missing ones are skipped, so that one
// command line serves targets with and without a corpus of their own.
// Out: each file, in order of its path, given to the fuzz target once, and the empty input before
// all; exit code 0 if the target came back from each.
// Assumes: nothing; this replaces the fuzzing engine, so that any compiler replays a corpus.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> list_files(const fs::path& root) {
  std::vector<fs::path> files;
  if (fs::is_regular_file(root)) {
    files.push_back(root);
  } else if (fs::is_directory(root)) {
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void replay(const std::string& bytes) {
  // An exact-size copy on the heap, so that AddressSanitizer sees a read past the input.
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  replay("");
  std::size_t count = 1;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : list_files(argv[i])) {
      std::fprintf(stderr, "replay %s\n", path.c_str());  // names the input if the next line dies
      replay(read_file(path));
      ++count;
    }
  }
  std::printf("replayed %zu inputs\n", count);
  return 0;
}
