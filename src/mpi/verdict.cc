#include "mpi/verdict.h"

#include <algorithm>
#include <sstream>

#include "base/formatted.h"

namespace gradwire::mpi {
namespace {

constexpr std::size_t kMostText = 1000;  ///< bytes of a sentence that goes to the peers

/// The first line in which two calls differ, as a sentence.
std::string difference(const std::string& first, const std::string& other, std::size_t rank) {
  std::istringstream a(first), b(other);
  std::string left, right;
  do {
    left = right = "nothing";
    std::getline(a, left);
    std::getline(b, right);
  } while (left == right && a && b);
  return formatted("ranks differ: `{}` on rank 0, `{}` on rank {}", left, right, rank);
}

}  // namespace

std::string Ending::text() const {
  std::string text = {static_cast<char>(cause), static_cast<char>(kind)};
  return text + what.substr(0, kMostText);
}

Ending Ending::parse(const std::string& text) {
  if (text.size() < 2) return {Cause::own, ErrorKind::corrupt, "an end without a status"};
  const auto cause = std::min(static_cast<std::uint8_t>(text[0]), std::uint8_t{2});
  const auto kind = static_cast<std::uint8_t>(text[1]);
  const auto largest = static_cast<std::uint8_t>(ErrorKind::io);
  return {static_cast<Cause>(cause),
          static_cast<ErrorKind>(std::clamp(kind, std::uint8_t{1}, largest)), text.substr(2)};
}

std::optional<Error> judge(std::span<const Words> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Ending& ending = ranks[r].ending;
    if (ending.cause == Ending::Cause::own)
      return Error(ending.kind, formatted("allreduce: rank {}: {}", r, ending.what));
  }
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].hello != ranks[0].hello)
      return Error(ErrorKind::transport,
                   "allreduce: " + difference(ranks[0].hello, ranks[r].hello, r));
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].ending.cause != Ending::Cause::success)
      return Error(ErrorKind::transport, formatted("allreduce: rank {} has stopped", r));
  }
  return std::nullopt;
}

}  // namespace gradwire::mpi
