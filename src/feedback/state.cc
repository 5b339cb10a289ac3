// The state as bytes, and states of another number of ranks.
// Bytes: version (u8, 1), kind (u8), dimensions (varint), lengths (varints), then the buffers of
// the kind, n f32 each: error, momentum.
#include "base/fail.h"
#include "feedback/feedback.h"

namespace gradwire::feedback {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr const char* kKindNames[] = {"none", "error", "dgc"};

const char* name_of(std::uint8_t kind) { return kind < 3 ? kKindNames[kind] : "unknown"; }

std::string text_of(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t length : shape) {
    if (text.size() > 1) text += ", ";
    text += formatted("{}", length);
  }
  return text + "]";
}

std::vector<std::uint64_t> read_shape(ByteReader& reader) {
  std::vector<std::uint64_t> shape(reader.count("feedback state, dimensions", kMaxDimensions));
  for (std::uint64_t& length : shape) length = reader.varint("feedback state, shape");
  return shape;
}

/// buffer += the others' in double; `of` gives a state's buffer.
template <typename BufferOf>
void add_up(std::span<const Feedback* const> states, std::size_t first, std::size_t step,
            const BufferOf& of, std::vector<float>& buffer) {
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    double sum = 0;
    for (std::size_t k = first; k < states.size(); k += step) sum += of(*states[k])[i];
    buffer[i] = static_cast<float>(sum);
  }
}

}  // namespace

Bytes Feedback::save() const {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u8(kVersion);
  out.u8(static_cast<std::uint8_t>(options_.kind));
  out.varint(shape_.size());
  for (const std::uint64_t length : shape_) out.varint(length);
  out.bytes(bytes_of(error_));
  out.bytes(bytes_of(momentum_));
  return bytes;
}

void Feedback::load(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (const std::uint8_t version = reader.u8("feedback state, version"); version != kVersion)
    fail(ErrorKind::unsupported, "feedback state of '{}': version {}, this build reads {}", name_,
         version, kVersion);
  const std::uint8_t kind = reader.u8("feedback state, kind");
  if (kind != static_cast<std::uint8_t>(options_.kind))
    fail(ErrorKind::invalid_argument,
         "feedback state of '{}': saved with feedback {}, this run uses {}; resume with the method "
         "of the checkpoint, or start without its feedback state",
         name_, name_of(kind), name_of(static_cast<std::uint8_t>(options_.kind)));
  if (const std::vector<std::uint64_t> shape = read_shape(reader); shape != shape_)
    fail(ErrorKind::invalid_argument,
         "feedback state of '{}': saved for shape {}, the parameter has shape {}", name_,
         text_of(shape), text_of(shape_));
  std::vector<float> error = read_floats(reader, "feedback state, error", error_.size());
  std::vector<float> momentum = read_floats(reader, "feedback state, momentum", momentum_.size());
  reader.expect_end("feedback state");
  error_ = std::move(error);
  momentum_ = std::move(momentum);
}

Feedback Feedback::merge(std::span<const Feedback* const> old, unsigned new_world, unsigned rank) {
  if (old.empty()) fail(ErrorKind::invalid_argument, "feedback: no states to merge");
  if (rank >= new_world)
    fail(ErrorKind::invalid_argument, "feedback: rank {} of a world of {}", rank, new_world);
  const Feedback& first = *old[0];
  for (std::size_t k = 1; k < old.size(); ++k)
    if (old[k]->shape_ != first.shape_ || old[k]->options_.kind != first.options_.kind)
      fail(ErrorKind::invalid_argument,
           "feedback of '{}': rank 0 has shape {} and feedback {}, rank {} has shape {} and {}",
           first.name_, text_of(first.shape_),
           name_of(static_cast<std::uint8_t>(first.options_.kind)), k, text_of(old[k]->shape_),
           name_of(static_cast<std::uint8_t>(old[k]->options_.kind)));
  FeedbackOptions options = first.options_;
  options.world = new_world;
  Feedback merged(options, first.name_, first.shape_);
  add_up(old, rank, new_world, [](const Feedback& f) { return f.error(); }, merged.error_);
  add_up(old, rank, new_world, [](const Feedback& f) { return f.momentum(); }, merged.momentum_);
  return merged;
}

}  // namespace gradwire::feedback
