// Parses the Python literal in a .npy header. A scanner for the three keys that NumPy writes.
#include <limits>
#include <string_view>

#include "errors.h"
#include "formatted.h"
#include "npy.h"

namespace gradwire::cli {
namespace {

class DictScanner {
 public:
  DictScanner(std::string_view text, std::uint64_t start) : text_(text), start_(start) {}

  NpyDict scan() {
    take('{');
    while (!try_take('}')) {
      const std::string key = string();
      take(':');
      value(key);
      if (!try_take(',')) {
        take('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) refuse("the end of the header");
    for (const bool seen : seen_) {
      if (!seen) fail(ErrorKind::corrupt, "npy header lacks descr, fortran_order or shape");
    }
    return dict_;
  }

 private:
  [[noreturn]] void refuse(const std::string& wanted) const {
    const std::string found =
        at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : std::string("its end");
    fail(ErrorKind::corrupt,
         formatted("npy header, byte {}: {} is wanted, found {}", start_ + at_, wanted, found));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool try_take(char character) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != character) return false;
    ++at_;
    return true;
  }

  void take(char character) {
    if (!try_take(character)) refuse(formatted("{}", character));
  }

  bool try_word(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string string() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse("a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string that ends");
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(content);
  }

  void value(const std::string& key) {
    constexpr std::string_view kKeys[] = {"descr", "fortran_order", "shape"};
    std::size_t which = 0;
    while (which < 3 && kKeys[which] != key) ++which;
    if (which == 3 || seen_[which]) refuse("one each of descr, fortran_order and shape");
    seen_[which] = true;
    if (which == 0) descr();
    if (which == 1) boolean();
    if (which == 2) shape();
  }

  void descr() {
    if (try_take('[')) {
      fail(ErrorKind::unsupported,
           "structured npy types are not supported; save each field as an array of its own");
    }
    dict_.descr = string();
  }

  void boolean() {
    dict_.fortran_order = try_word("True");
    if (!dict_.fortran_order && !try_word("False")) refuse("True or False");
  }

  void shape() {
    take('(');
    while (!try_take(')')) {
      dict_.shape.push_back(number());
      if (!try_take(',')) {
        take(')');
        break;
      }
    }
  }

  std::uint64_t number() {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    skip_blanks();
    std::uint64_t number = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (number > (kMost - digit) / 10) refuse("a dimension below 2^64");
      number = number * 10 + digit;
    }
    if (at_ == first) refuse("a dimension of 0 or more");
    return number;
  }

  std::string_view text_;
  std::uint64_t start_;
  std::size_t at_ = 0;
  bool seen_[3] = {};
  NpyDict dict_;
};

}  // namespace

NpyDict parse_npy_dict(std::span<const std::uint8_t> text, std::uint64_t start) {
  return DictScanner({reinterpret_cast<const char*>(text.data()), text.size()}, start).scan();
}

}  // namespace gradwire::cli
