#include "mpi/streams.h"

namespace gradwire::mpi {

/// A buffer is kept before MPI knows it, so that no exception can free one that MPI reads.
Streams::Buffer& Streams::keep(Bytes bytes, std::size_t requests) {
  Buffer& buffer = buffers_.emplace_back();
  buffer.bytes = std::move(bytes);
  buffer.requests.reserve(requests);
  return buffer;
}

void Streams::send(const std::uint8_t* data, std::size_t bytes, unsigned peer, Tag tag,
                   Buffer& buffer) {
  const int length = to_int(bytes);
  MPI_Request& request = buffer.requests.emplace_back(MPI_REQUEST_NULL);
  check(MPI_Isend(data, length, MPI_BYTE, static_cast<int>(peer), static_cast<int>(tag), comm_,
                  &request),
        "MPI_Isend");
}

void Streams::send_to_all(Tag tag, const std::string& text) {
  Buffer& buffer = keep(Bytes(text.begin(), text.end()), world_);
  for (unsigned p = 0; p < world_; ++p)
    if (p != rank_) send(buffer.bytes.data(), buffer.bytes.size(), p, tag, buffer);
}

void Streams::send(ExchangeStep step) {
  Buffer& buffer = keep(std::move(step.send), world_);
  const std::uint8_t* data = buffer.bytes.data();
  for (unsigned p = 0; p < world_; ++p) {
    if (p != rank_) send(data, step.send_bytes[p], p, Tag::data, buffer);
    data += step.send_bytes[p];
  }
}

std::optional<Arrived> Streams::look(unsigned peer) const {
  int found = 0, bytes = 0;
  MPI_Status status;
  check(MPI_Iprobe(static_cast<int>(peer), MPI_ANY_TAG, comm_, &found, &status), "MPI_Iprobe");
  if (!found) return std::nullopt;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  if (bytes < 0) throw Broken("MPI_Get_count failed: a message without a length");
  return Arrived{static_cast<Tag>(status.MPI_TAG), static_cast<std::size_t>(bytes)};
}

std::string Streams::receive_text(unsigned peer, const Arrived& arrived) {
  std::string text(arrived.bytes, '\0');
  check(MPI_Recv(text.data(), to_int(text.size()), MPI_BYTE, static_cast<int>(peer),
                 static_cast<int>(arrived.tag), comm_, MPI_STATUS_IGNORE),
        "MPI_Recv");
  return text;
}

void Streams::receive(unsigned peer, const Arrived& arrived, std::uint8_t* into,
                      MPI_Request& request) {
  check(MPI_Irecv(into, to_int(arrived.bytes), MPI_BYTE, static_cast<int>(peer),
                  static_cast<int>(arrived.tag), comm_, &request),
        "MPI_Irecv");
}

void Streams::discard(unsigned peer, const Arrived& arrived) {
  Buffer& buffer = keep(Bytes(arrived.bytes), 1);
  receive(peer, arrived, buffer.bytes.data(), buffer.requests.emplace_back(MPI_REQUEST_NULL));
}

bool Streams::is_quiet() {
  while (!buffers_.empty() &&
         all_ended(buffers_.front().requests.data(), buffers_.front().requests.size()))
    buffers_.pop_front();
  return buffers_.empty();
}

}  // namespace gradwire::mpi
