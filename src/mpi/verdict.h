// What all ranks think of an all-reduce, and the one error that they all throw.
// In: what each rank has said at the start and at the end.
// Out: nothing, or an error that is the same on all ranks.
// Assumes: all ranks have got the same words; they are text from peers, compared and shown only.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "gradwire/error.h"

namespace gradwire::mpi {

/// How a rank has ended.
struct Ending {
  enum class Cause : std::uint8_t { success = 0, own = 1, peer = 2 };
  Cause cause = Cause::success;
  ErrorKind kind = ErrorKind::transport;
  std::string what = {};  ///< of an own failure

  std::string text() const;
  static Ending parse(const std::string& text);
};

/// A rank's words: its call, and how it has ended.
struct Words {
  std::string hello;
  Ending ending;
};

/// The first rank that has failed by itself; else the first one whose call is another than rank
/// 0's; else whatever made a rank stop.
std::optional<Error> judge(std::span<const Words> ranks);

}  // namespace gradwire::mpi
