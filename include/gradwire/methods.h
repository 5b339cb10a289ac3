// The methods that a spec string may name, for `gradwire methods` and for error messages.
#pragma once

#include <span>
#include <string_view>

#include "gradwire/options.h"

namespace gradwire {

struct MethodParameter {
  std::string_view name, range, default_value, meaning;
};

struct Method {
  std::string_view name, traits, summary, source;
  std::span<const MethodParameter> parameters;
};

/// All methods: the exact ones, then the lossy ones of gradwire/lossy.h.
std::span<const Method> methods();

/// Options of a spec: "lossless", "lossless(level=3,coder=ans)", "none" (stored). What the spec
/// leaves open is taken from `defaults`. Throws Error(invalid_argument) with near names for unknown
/// words, for numbers out of range, and for lossy methods.
CompressOptions parse_method(std::string_view spec, const CompressOptions& defaults = {});

/// The part in brackets alone: "", "level=3,coder=huffman,threads=2,checksum=false".
CompressOptions parse_options(std::string_view text, const CompressOptions& defaults = {});

}  // namespace gradwire
