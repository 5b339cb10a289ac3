#include "input_bytes.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "errors.h"

namespace gradwire::cli {
namespace {

constexpr std::size_t kFirstRoom = std::size_t{1} << 16;

/// A descriptor that is closed at the end, except for stdin.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number_(is_standard_stream(path) ? STDIN_FILENO
                                         : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) fail_errno("cannot open", errno);
  }
  ~Descriptor() {
    if (number_ != STDIN_FILENO) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

bool is_standard_stream(const std::string& path) { return path == "-"; }

std::string shown_input(const std::string& path) {
  return is_standard_stream(path) ? "stdin" : path;
}

InputBytes::InputBytes(const std::string& path) {
  const Descriptor descriptor(path);
  struct stat status = {};
  if (::fstat(descriptor.number(), &status) != 0) fail_errno("cannot read", errno);
  if (S_ISDIR(status.st_mode)) fail_errno("cannot read", EISDIR);
  const bool is_regular = S_ISREG(status.st_mode);
  if (is_regular && !is_standard_stream(path)) mode_ = status.st_mode & 0777U;
  // Files of /proc say that they have 0 bytes; a redirected stdin may not be at its start.
  if (is_regular && status.st_size > 0 && ::lseek(descriptor.number(), 0, SEEK_CUR) == 0) {
    map(descriptor.number(), static_cast<std::size_t>(status.st_size));
  } else {
    read_all(descriptor.number());
  }
}

InputBytes::~InputBytes() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

void InputBytes::forget(std::span<const std::uint8_t> part) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t begin = (offset + page - 1) / page * page;  // mappings begin at a page
  const std::size_t end = (offset + part.size()) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

void InputBytes::map(int descriptor, std::size_t size) {
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) fail_errno("cannot map", errno);
  data_ = static_cast<std::uint8_t*>(address);
  size_ = size;
  capacity_ = size;
}

void InputBytes::read_all(int descriptor) {
  for (;;) {
    if (size_ == capacity_) grow(std::max(kFirstRoom, capacity_ * 2));
    const ssize_t count = ::read(descriptor, data_ + size_, capacity_ - size_);
    if (count == 0) return;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("cannot read", errno);
    size_ += static_cast<std::size_t>(count);
  }
}

// Mapped pages move without a copy, and those not yet written cost no memory.
void InputBytes::grow(std::size_t capacity) {
  void* const address = data_ == nullptr ? ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                         : ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
  if (address == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::uint8_t*>(address);
  capacity_ = capacity;
}

}  // namespace gradwire::cli
