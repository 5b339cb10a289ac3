#include "safetensors_header.h"

#include <iterator>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "errors.h"
#include "formatted.h"

namespace gradwire::cli {
namespace {

using nlohmann::json;

/// A character pointer that tells how far it has been moved, because the parser gives no positions.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *furthest = ++at;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

/// What the next value in the JSON belongs to.
enum class Place { top, entry, dtype, shape, offsets, metadata, metadata_value, ignored };

/// Takes the parser's events. `expected_` is the place of the next value, `open_` those of the
/// containers around it.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(const char* const* furthest, const char* text, std::uint64_t start)
      : furthest_(furthest), text_(text), start_(start) {}

  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool null() override { return other_value("null"); }
  bool boolean(bool /*value*/) override { return other_value("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return other_value(formatted("{}", value));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return other_value(text);
  }
  bool binary(binary_t& /*value*/) override { return other_value("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (is_inside(Place::shape)) {
      entries_.back().shape.push_back(value);
    } else if (is_inside(Place::offsets)) {
      entries_.back().offsets.push_back(value);
    } else {
      return other_value(formatted("{}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (expected_ == Place::dtype) {
      entries_.back().dtype = value;
    } else if (expected_ != Place::metadata_value) {
      return other_value("a string");
    }
    return true;
  }

  bool start_object(std::size_t /*count*/) override {
    if (expected_ != Place::top && expected_ != Place::entry && expected_ != Place::metadata &&
        expected_ != Place::ignored) {
      return other_value("an object");
    }
    open_.push_back(expected_);
    return true;
  }

  bool start_array(std::size_t /*count*/) override {
    const bool is_list = expected_ == Place::shape || expected_ == Place::offsets;
    const bool is_wanted = expected_ == Place::ignored || (is_list && !is_inside(expected_));
    if (!is_wanted) return other_value("an array");
    open_.push_back(expected_);
    return true;
  }

  bool key(string_t& name) override {
    switch (open_.back()) {
      case Place::top:
        begin_entry(name);
        break;
      case Place::entry:
        begin_field(name);
        break;
      case Place::metadata:
        if (!names_in_metadata_.insert(name).second)
          refuse("key " + in_quotes(name) + " stands twice");
        expected_ = Place::metadata_value;
        break;
      default:
        expected_ = Place::ignored;
    }
    return true;
  }

  bool end_object() override {
    if (open_.back() == Place::entry) check_entry();
    open_.pop_back();
    return true;
  }

  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& error) override {
    // The exception's text begins with its own position, which counts from the JSON's start.
    const std::string text = error.what();
    const std::size_t reason = text.find("syntax error");
    fail(ErrorKind::corrupt,
         formatted("safetensors header is not JSON, at byte {}: {}",
                   start_ + (position == 0 ? 0 : position - 1),
                   printable(reason == std::string::npos ? text : text.substr(reason))));
  }

 private:
  static constexpr const char* kFields[] = {"dtype", "shape", "data_offsets"};

  bool is_inside(Place place) const { return !open_.empty() && open_.back() == place; }

  std::uint64_t position() const { return start_ + static_cast<std::uint64_t>(*furthest_ - text_); }

  [[noreturn]] void refuse(const std::string& what) const {
    const bool is_in_entry =
        expected_ == Place::entry || (open_.size() > 1 && open_[1] == Place::entry);
    const std::string tensor =
        is_in_entry ? formatted("tensor {}: ", in_quotes(entries_.back().name)) : "";
    fail(ErrorKind::corrupt,
         formatted("safetensors header, before byte {}: {}{}", position(), tensor, what));
  }

  void begin_entry(const std::string& name) {
    if (!names_.insert(name).second) refuse("tensor " + in_quotes(name) + " stands twice");
    expected_ = name == "__metadata__" ? Place::metadata : Place::entry;
    if (expected_ == Place::entry) entries_.push_back({name, {}, {}, {}, position()});
    seen_ = 0;
  }

  void begin_field(const std::string& name) {
    constexpr Place kPlaces[] = {Place::dtype, Place::shape, Place::offsets};
    expected_ = Place::ignored;
    for (unsigned i = 0; i < 3; ++i) {
      if (name != kFields[i]) continue;
      if ((seen_ >> i & 1U) != 0) refuse(formatted("{} stands twice", kFields[i]));
      seen_ |= 1U << i;
      expected_ = kPlaces[i];
    }
  }

  void check_entry() const {
    for (unsigned i = 0; i < 3; ++i) {
      if ((seen_ >> i & 1U) == 0) refuse(formatted("{} is missing", kFields[i]));
    }
    if (entries_.back().offsets.size() != 2) {
      refuse(formatted("data_offsets has {} numbers instead of 2", entries_.back().offsets.size()));
    }
  }

  /// A value of a type that its place does not take, unless nobody reads that place.
  bool other_value(const std::string& found) const {
    switch (expected_) {
      case Place::ignored:
        return true;
      case Place::top:
        refuse("an object is wanted, not " + found);
      case Place::entry:
        refuse("a tensor is an object, not " + found);
      case Place::dtype:
        refuse("dtype is a string, not " + found);
      case Place::shape:
        refuse("shape is a list of whole numbers from 0 to 2^64 - 1, not " + found);
      case Place::offsets:
        refuse("data_offsets are two whole numbers from 0 to 2^64 - 1, not " + found);
      case Place::metadata:
      case Place::metadata_value:
        refuse("__metadata__ maps strings to strings, not to " + found);
    }
    return false;
  }

  const char* const* furthest_;
  const char* text_;
  std::uint64_t start_;
  Place expected_ = Place::top;
  std::vector<Place> open_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> names_, names_in_metadata_;
  unsigned seen_ = 0;  ///< bit i: field i of the current entry
};

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::uint8_t> text,
                                                       std::uint64_t start) {
  const char* const first = reinterpret_cast<const char*>(text.data());
  const char* furthest = first;
  HeaderReader reader(&furthest, first, start);
  json::sax_parse(CountingIterator{first, &furthest},
                  CountingIterator{first + text.size(), &furthest}, &reader);
  return reader.take();
}

}  // namespace gradwire::cli
