// What tests of errors share.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "gradwire/error.h"

namespace gradwire::testing {

/// The message of the error that `call` throws, which must be of this kind.
template <typename Call>
std::string refusal(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace gradwire::testing
