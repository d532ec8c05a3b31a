#pragma once
// Segments of a mapped file that pass through memory in every step, each brought before its first
// stage by a read past the system's cache, which would take longer to find memory for them than a
// disk takes to give them. They are read into a few slots of huge pages; a slot's pages then
// replace the file's at the segment's address until its last stage is over. What was not brought,
// for whichever reason, is read there by the page from the file, as everywhere else.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backplane/file_descriptor.hpp"

namespace bp::cpu {

// A file, and where it lies in the address space, shared and read-only.
struct MappedFile {
  int fd = -1;
  uintptr_t begin = 0, end = 0;
};

// Whole pages of a mapped file, read by stages [first_stage, last_stage].
struct StreamedSegment {
  uintptr_t begin, end;
  uint32_t first_stage, last_stage;
  [[nodiscard]] const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(begin); }
  [[nodiscard]] uint64_t n_bytes() const { return end - begin; }
};

class DirectWindow {
 public:
  // Takes those of `segments` that it will bring out of them: all that lie wholly in the file, each
  // within a part of segment_bytes, a multiple of a huge page, unless one stage reads more than
  // max_bytes hold. The mapping is this window's alone as long as it lives; segments are in the
  // order of their first stages. Null where nothing is left to bring, or the file system, the
  // kernel or memory does not let it.
  static std::unique_ptr<DirectWindow> create(std::shared_ptr<const MappedFile> file,
                                              std::vector<StreamedSegment>& segments,
                                              uint64_t segment_bytes, uint64_t max_bytes);
  ~DirectWindow();
  DirectWindow(const DirectWindow&) = delete;
  DirectWindow& operator=(const DirectWindow&) = delete;

  // Before a stage of a step, when all workers have left the one before; by one thread. Waits for
  // what the stage reads.
  void advance(uint32_t stage);

  // Of memory that it takes.
  [[nodiscard]] uint64_t n_bytes() const { return memory_.size(); }
  [[nodiscard]] size_t n_segments() const { return segments_.size(); }

 private:
  enum class State : uint8_t { kFree, kRead, kPlaced };  // kRead: at least begun
  enum class Outcome : uint8_t { kNone, kRead, kFailed };
  struct Slot {
    uint8_t* home;
    State state = State::kFree;
    uint64_t number = 0;               // of its segment, counted on through the steps
    Outcome outcome = Outcome::kNone;  // of the read, under mutex_
  };

  DirectWindow(std::shared_ptr<const MappedFile> file, std::vector<StreamedSegment> segments,
               AlignedBuffer memory, uint64_t segment_bytes);

  [[nodiscard]] const StreamedSegment& segment_of(const Slot& slot) const {
    return segments_[slot.number % segments_.size()];
  }
  [[nodiscard]] bool can_read() const;
  bool start_readers();
  void begin_step();
  void start_reads();
  // Whether it was read.
  bool wait_for(const Slot& slot);
  // Whether its read was taken back before it was begun.
  bool take_back(const Slot& slot);
  void place(Slot& slot);
  void release(Slot& slot);
  void map_file(const StreamedSegment& segment) const;
  void read_segments();

  const std::shared_ptr<const MappedFile> file_;
  const FileDescriptor direct_;
  const std::vector<StreamedSegment> segments_;
  const AlignedBuffer memory_;
  std::vector<Slot> slots_;
  uint64_t n_steps_ = 0;
  uint64_t step_begin_ = 0;  // number of the running step's first segment
  uint64_t next_ = 0;        // to be read
  bool can_move_ = true;     // pages; false once the system has refused

  std::mutex mutex_;
  std::condition_variable has_work_, has_read_;
  std::vector<Slot*> wanted_;  // under mutex_, like is_ending_
  bool is_ending_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace bp::cpu
