#pragma once
// Weights in mapped files: which of them stay in memory, and how the others come in time. Reading
// all of them in a circle would leave the system's cache without any that is still wanted, so a
// fixed part stays and the rest, spread evenly between, is read ahead of its stage and dropped
// behind it, past the system's cache where the file is known. Experts, of which a step reads few,
// come when rows have chosen them and go when the system wants room; of them stays at first what
// the others leave.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/threads/team.hpp"
#include "backends/cpu/weights/direct_window.hpp"
#include "backplane/backend.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

class WeightStream {
 public:
  // Bytes of a mapped file that a stage reads.
  struct Use {
    uint32_t stage;
    std::span<const uint8_t> bytes;
    bool is_chosen = false;   // by rows, in the stage: not every step reads it
    uint32_t last_stage = 0;  // to read them again and again; 0: `stage` alone
  };

  WeightStream() = default;
  // The uses in the order of their stages. file: what may be read past the system's cache; null or
  // mapped for this stream alone.
  WeightStream(std::span<const Use> uses, uint64_t resident_bytes,
               const std::shared_ptr<const MappedFile>& file = nullptr);

  [[nodiscard]] uint64_t resident_bytes() const { return resident_bytes_; }
  [[nodiscard]] uint64_t streamed_bytes() const { return streamed_bytes_; }
  // Of memory, for what is read past the system's cache.
  [[nodiscard]] uint64_t window_bytes() const {
    return direct_ == nullptr ? 0 : direct_->n_bytes();
  }

  // Brings what stays into memory.
  Status load(const Team& team, const Progress& progress) const;

  // Before a stage of a step, when all workers have left the one before; by one thread.
  void advance(uint32_t stage);

 private:
  struct Segment : StreamedSegment {
    bool is_chosen;
    bool is_reread;  // by a distant stage
  };

  static std::vector<Segment> cut(std::span<const Use> uses);
  // Of the segments, keeps so many bytes; others are streamed unless rows choose them.
  void share_out(std::span<const Segment> segments, uint64_t room);

  void advance_pages(uint32_t stage);

  std::vector<Segment> resident_;
  std::vector<StreamedSegment> streamed_;  // by the system's cache
  std::unique_ptr<DirectWindow> direct_;   // the others
  uint64_t resident_bytes_ = 0, streamed_bytes_ = 0;
  // Of streamed_. Counted on through the steps, so that reading ahead runs into the next step.
  uint64_t n_steps_ = 0;
  uint64_t step_begin_ = 0;  // first segment of the running step
  uint64_t released_ = 0, begun_ = 0, ahead_ = 0;
  uint64_t ahead_bytes_ = 0;  // of segments read whose stages have not begun
};

}  // namespace bp::cpu
