#pragma once
// One body's part of all that a server holds of bodies being read or waiting for a worker.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace bp::server {

class HeldBody {
 public:
  // The sum outlives the server, as what waits for a worker may.
  using Sum = std::shared_ptr<std::atomic<uint64_t>>;

  explicit HeldBody(Sum sum) : sum_(std::move(sum)) {}
  ~HeldBody() { *sum_ -= n_bytes_; }
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }
  // It has n_bytes now, no fewer than before; whether all together have no more than `limit`.
  [[nodiscard]] bool grow(uint64_t n_bytes, uint64_t limit) {
    *sum_ += n_bytes - n_bytes_;
    n_bytes_ = n_bytes;
    return *sum_ <= limit;
  }

 private:
  Sum sum_;
  uint64_t n_bytes_ = 0;
};

}  // namespace bp::server
