// Means of the values at one rank's places, by the code of a learned network (LGC).
// In: a bucket's memory and its tensors' coders; a network, once there is one.
// Out: an exchange; in the end the means lie in the bucket. Without a network, what one is to be
// trained on.
// Assumes: what is given by reference outlives it. The same network on all ranks, or none.
// Rounds (docs/exchange.md 9.4): tensors that go exactly, if there are any; every rank's message,
// the leader's with the places; the values there, or the mean of their codes. How long a round is
// follows from shapes and settings, so that a rank that has failed can make it.
#pragma once

#include "exchange/lossy_messages.h"
#include "exchange/lossy_rounds.h"

namespace gradwire::exchange {

class LearnedRounds final : public LossyRounds {
 public:
  LearnedRounds(const LossyWork& work, const std::vector<LossyPart>& tensors, const RoundPlace& at,
                RoundRooms& rooms, LearnedState& learned);

 private:
  /// A tensor, and where its elements and its places begin among those of all of them.
  struct Item {
    LossyPart part;
    std::size_t first = 0;
    std::size_t place = 0, places = 0;
    std::size_t innovations = 0;
  };
  /// Elements of all tensors, ascending, and what is sent of them.
  struct Sparse {
    lossy::Indices indices;
    std::vector<float> values;
  };
  enum class Round : std::uint8_t { exact, places, values, end };
  enum class Stage : std::uint8_t { learning, ring, server };

  void prepare(std::size_t round) override;
  std::unique_ptr<Exchange> make(std::size_t round) override;
  void finish() override;

  Round round_of(std::size_t round) const noexcept;
  bool leads() const noexcept { return at_.rank == leader_; }
  std::unique_ptr<Exchange> start_messages(std::size_t round,
                                           const std::vector<std::size_t>& bounds,
                                           PiecePayloads& arrived);
  std::vector<std::size_t> place_bounds() const;

  // Sending (lossy_learned.cc).
  void take_values();
  void choose_places();
  void choose_innovations();
  void write_places();
  void append_values(std::span<float> values, const lossy::Indices* indices,
                     const lossy::ValueCoding& coding);
  void gather_own();
  void encode_own();
  void encode_code();

  // Receiving (lossy_learned_receive.cc).
  void read_places(ByteReader& in);
  void read_values(ByteReader& in, std::uint64_t n, std::size_t selected);
  void add_learning();
  void decode_code(std::span<const float> code);
  void decode_server();
  void add_innovations();
  void note_with_innovations();
  void note_sent(const lossy::Indices& indices, std::span<const float> values);

  LearnedState& learned_;
  RoundRooms& rooms_;
  Roles roles_;
  unsigned leader_;
  Stage stage_ = Stage::learning;
  ExactTensors exact_;
  std::vector<Item> items_;
  std::size_t elements_ = 0, place_count_ = 0, innovation_count_ = 0, code_size_ = 0;
  Bytes message_, body_;
  PiecePayloads places_of_, values_of_;  ///< messages by rank
  lossy::Indices places_;                ///< the leader's, ascending
  float scale_ = 1;                      ///< root mean square of the leader's values there
  std::vector<float> own_;               ///< this rank's values there
  std::vector<float> code_, own_code_;   ///< the ring's sum of codes, later their mean; this rank's
  std::vector<float> decoded_, mean_;
  Sparse innovations_;
};

}  // namespace gradwire::exchange
