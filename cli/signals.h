// What a signal must clean up: the temporary file of the output in the making.
#pragma once

#include <string>

namespace gradwire::cli {

/// SIGINT, SIGTERM and SIGHUP remove the temporary file, then end the process as usual. A closed
/// pipe or a size limit becomes an error of write(). A mapped input that shrinks ends with exit
/// code 2.
void install_signal_handlers();

/// Holds these signals back while it lives, so that a file and its note appear together.
class SignalPause {
 public:
  SignalPause();
  ~SignalPause();
  SignalPause(const SignalPause&) = delete;
  SignalPause& operator=(const SignalPause&) = delete;
  SignalPause(SignalPause&&) = delete;
  SignalPause& operator=(SignalPause&&) = delete;
};

/// One temporary file at a time is noted; an empty path forgets it. Call under a SignalPause.
void note_temporary_file(const std::string& path);

}  // namespace gradwire::cli
