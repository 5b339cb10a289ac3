#include "output_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "errors.h"
#include "formatted.h"
#include "input_bytes.h"
#include "signals.h"

namespace gradwire::cli {
namespace {

constexpr std::size_t kMostBytesAtOnce = std::size_t{1} << 30;  // write() takes at most 2 GiB

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Where a link to an existing file leads, so that the link itself stays.
std::string without_link(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

/// The name stays after a power cut only when the folder is flushed too; some file systems cannot.
void flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

OutputFile::OutputFile(std::string path, bool overwrite, std::optional<mode_t> mode)
    : path_(std::move(path)), overwrite_(overwrite) {
  if (is_standard_stream(path_)) {
    if (::isatty(STDOUT_FILENO) != 0 && !overwrite_) {
      fail(ErrorKind::invalid_argument,
           "not writing binary data to a terminal; name a file with -o, or insist with -f");
    }
    descriptor_ = STDOUT_FILENO;
    return;
  }
  path_ = without_link(path_);
  struct stat status = {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_write(EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    open_in_place();
    return;
  }
  if (exists && !overwrite_) fail_write(EEXIST);
  open_temporary(exists ? std::optional<mode_t>(status.st_mode & 0777U) : mode);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) ::close(descriptor_);
  if (temporary_.empty()) return;
  const SignalPause pause;
  ::unlink(temporary_.c_str());
  note_temporary_file("");
}

void OutputFile::open_in_place() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_write(errno);
}

void OutputFile::open_temporary(std::optional<mode_t> mode) {
  const SignalPause pause;
  std::string name = folder_of(path_) + "/.gradwire-XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_write(errno);
  temporary_ = name;
  note_temporary_file(temporary_);
  ::fchmod(descriptor_, mode.value_or(new_file_mode()));
}

void OutputFile::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t room = std::min(bytes.size(), kMostBytesAtOnce);
    const ssize_t count = ::write(descriptor_, bytes.data(), room);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void OutputFile::commit() {
  if (descriptor_ == STDOUT_FILENO) return;
  if (!is_in_place() && ::fsync(descriptor_) != 0) fail_write(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_write(errno);
  if (is_in_place()) return;
  rename_temporary();
  flush_folder(folder_of(path_));
}

void OutputFile::rename_temporary() {
  const SignalPause pause;
  // A file that appeared since the first look is not overwritten either.
  const unsigned flags = overwrite_ ? 0 : RENAME_NOREPLACE;
  int failed = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (failed != 0 && (errno == EINVAL || errno == ENOSYS)) {  // an older file system
    failed = ::rename(temporary_.c_str(), path_.c_str());
  }
  if (failed != 0) fail_write(errno);
  temporary_.clear();
  note_temporary_file("");
}

void OutputFile::fail_write(int error) const {
  const std::string name = is_standard_stream(path_) ? "stdout" : printable(path_);
  if (error == EEXIST) {
    fail(ErrorKind::io, formatted("{} exists; overwrite it with -f", name));
  }
  fail_errno(formatted("cannot write {}", name), error);
}

}  // namespace gradwire::cli
