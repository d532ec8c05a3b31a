#include "backends/cpu/weights/direct_window.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "backends/cpu/round_up.hpp"
#include "backplane/file_descriptor.hpp"
#include "backplane/no_signals.hpp"

namespace bp::cpu {

namespace {

constexpr size_t kReaders = 2;  // one sends the next request while the other's is answered
constexpr size_t kAhead = 6;    // slots beside those of a stage

uint8_t* pointer(uintptr_t address) {
  return reinterpret_cast<uint8_t*>(address);
}

// The file once more, with reads that pass the system's cache; -1 where there are none, or where
// the cache is all there is of the file.
int open_direct(const MappedFile& file) {
  struct statfs system {};
  if (::fstatfs(file.fd, &system) != 0 || system.f_type == TMPFS_MAGIC) return -1;
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd);
  return ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
}

// The pages at `from` go to `to`; both stay mapped, `from` as memory without contents. Where the
// system refuses, nothing may be mapped at `to` any longer.
bool move_pages_to(uint8_t* from, size_t n_bytes, uint8_t* to) {
#ifdef MREMAP_DONTUNMAP
  return ::mremap(from, n_bytes, n_bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) ==
         to;
#else
  return false;
#endif
}

bool can_move_pages() {
  const auto from = AlignedBuffer::allocate(kSmallPage, "a page");
  const auto to = AlignedBuffer::allocate(kSmallPage, "a page");
  return from.ok() && to.ok() && move_pages_to((*from).data(), kSmallPage, (*to).data());
}

// Takes out of `segments`, widened to huge pages, those that lie in the file so and of which no
// stage reads more than `limit`. `most` becomes how many one stage reads.
std::vector<StreamedSegment> take_eligible(const MappedFile& file,
                                           std::vector<StreamedSegment>& segments, size_t limit,
                                           size_t& most) {
  std::vector<StreamedSegment> taken, left;
  std::map<uint32_t, size_t> n_of_stage;
  for (const StreamedSegment& segment : segments) {
    StreamedSegment wide = segment;
    wide.begin = segment.begin / kHugePage * kHugePage;
    wide.end = round_up(segment.end, kHugePage);
    bool fits = wide.begin >= file.begin && wide.end <= file.end;
    for (uint32_t s = wide.first_stage; fits && s <= wide.last_stage; ++s) {
      fits = n_of_stage[s] < limit;
    }
    if (!fits) {
      left.push_back(segment);
      continue;
    }
    for (uint32_t s = wide.first_stage; s <= wide.last_stage; ++s) {
      most = std::max(most, ++n_of_stage[s]);
    }
    taken.push_back(wide);
  }
  segments = std::move(left);
  return taken;
}

}  // namespace

std::unique_ptr<DirectWindow> DirectWindow::create(std::shared_ptr<const MappedFile> file,
                                                   std::vector<StreamedSegment>& segments,
                                                   uint64_t segment_bytes, uint64_t max_bytes) {
  const size_t n_slots = max_bytes / segment_bytes;
  if (file == nullptr || n_slots < 2 || !can_move_pages()) return nullptr;
  const size_t n_ahead = std::min(kAhead, n_slots / 2);
  std::vector<StreamedSegment> left = segments;
  size_t most = 0;
  std::vector<StreamedSegment> taken = take_eligible(*file, left, n_slots - n_ahead, most);
  if (taken.empty()) return nullptr;
  auto memory = AlignedBuffer::allocate(std::min(most + n_ahead, taken.size()) * segment_bytes,
                                        "weights that a step streams");
  if (!memory.ok()) return nullptr;
  std::unique_ptr<DirectWindow> window(new DirectWindow(std::move(file), std::move(taken),
                                                        std::move(memory).value(), segment_bytes));
  if (!window->can_read() || !window->start_readers()) return nullptr;
  segments = std::move(left);
  return window;
}

DirectWindow::DirectWindow(std::shared_ptr<const MappedFile> file,
                           std::vector<StreamedSegment> segments, AlignedBuffer memory,
                           uint64_t segment_bytes)
    : file_(std::move(file)),
      direct_(open_direct(*file_)),
      segments_(std::move(segments)),
      memory_(std::move(memory)) {
  // Shared with a child they would be copied at the next read, and be huge no longer.
  static_cast<void>(::madvise(memory_.data(), memory_.size(), MADV_DONTFORK));
  for (size_t at = 0; at < memory_.size(); at += segment_bytes) {
    slots_.push_back({memory_.data() + at});
  }
  wanted_.reserve(slots_.size());
}

DirectWindow::~DirectWindow() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_all();
  for (std::thread& reader : readers_) reader.join();
  for (Slot& slot : slots_) {
    if (slot.state == State::kPlaced) release(slot);
  }
}

bool DirectWindow::can_read() const {
  return direct_.fd >= 0 &&
         read_at(direct_.fd, memory_.data(), kSmallPage, segments_[0].begin - file_->begin);
}

bool DirectWindow::start_readers() {
  const NoSignals no_signals;
  try {
    for (size_t i = 0; i < kReaders; ++i) readers_.emplace_back([this] { read_segments(); });
  } catch (const std::system_error&) {
    // Those that the system has granted suffice.
  }
  return !readers_.empty();
}

void DirectWindow::advance(uint32_t stage) {
  if (stage == 0) begin_step();
  for (Slot& slot : slots_) {
    if (slot.state == State::kPlaced && segment_of(slot).last_stage < stage) release(slot);
  }
  start_reads();
  const uint64_t step_end = step_begin_ + segments_.size();
  for (Slot& slot : slots_) {
    if (slot.state != State::kRead || slot.number >= step_end) continue;
    if (segment_of(slot).first_stage <= stage) place(slot);
  }
}

// Of earlier steps, also of one that was broken off, nothing stays but what is read for this one.
void DirectWindow::begin_step() {
  step_begin_ = segments_.size() * n_steps_++;
  for (Slot& slot : slots_) {
    if (slot.number >= step_begin_) continue;
    if (slot.state == State::kPlaced) release(slot);
    if (slot.state != State::kRead) continue;
    if (!take_back(slot)) wait_for(slot);
    slot.state = State::kFree;
  }
  next_ = std::max(next_, step_begin_);
}

void DirectWindow::start_reads() {
  if (!can_move_) return;
  const auto is_held = [this](size_t segment) {
    return std::ranges::any_of(slots_, [&](const Slot& slot) {
      return slot.state != State::kFree && slot.number % segments_.size() == segment;
    });
  };
  size_t n_started = 0;
  {
    const std::lock_guard lock(mutex_);
    for (Slot& slot : slots_) {
      if (slot.state != State::kFree) continue;
      if (is_held(next_ % segments_.size())) break;
      slot = {slot.home, State::kRead, next_++, Outcome::kNone};
      wanted_.push_back(&slot);
      ++n_started;
    }
  }
  if (n_started > 0) has_work_.notify_all();
}

bool DirectWindow::take_back(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  return std::erase(wanted_, &slot) > 0;
}

bool DirectWindow::wait_for(const Slot& slot) {
  std::unique_lock lock(mutex_);
  has_read_.wait(lock, [&] { return slot.outcome != Outcome::kNone; });
  return slot.outcome == Outcome::kRead;
}

void DirectWindow::place(Slot& slot) {
  const StreamedSegment& segment = segment_of(slot);
  slot.state = State::kFree;
  if (!can_move_ || !wait_for(slot)) return;
  can_move_ = move_pages_to(slot.home, segment.n_bytes(), pointer(segment.begin));
  if (can_move_) {
    slot.state = State::kPlaced;
  } else {
    map_file(segment);
  }
}

void DirectWindow::release(Slot& slot) {
  const StreamedSegment& segment = segment_of(slot);
  slot.state = State::kFree;
  if (!move_pages_to(pointer(segment.begin), segment.n_bytes(), slot.home)) {
    can_move_ = false;
    // So that nothing else comes to lie there.
    ::mmap(slot.home, segment.n_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  map_file(segment);
}

void DirectWindow::map_file(const StreamedSegment& segment) const {
  uint8_t* data = pointer(segment.begin);
  const auto offset = static_cast<off_t>(segment.begin - file_->begin);
  if (::mmap(data, segment.n_bytes(), PROT_READ, MAP_SHARED | MAP_FIXED, file_->fd, offset) ==
      data) {
    ::madvise(data, segment.n_bytes(), MADV_HUGEPAGE);
  } else {
    // Better the end of the process than zeros for weights.
    ::mprotect(data, segment.n_bytes(), PROT_NONE);
  }
}

void DirectWindow::read_segments() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return is_ending_ || !wanted_.empty(); });
    if (is_ending_) return;
    Slot& slot = *wanted_.front();
    wanted_.erase(wanted_.begin());
    const StreamedSegment& segment = segment_of(slot);
    lock.unlock();
    const bool is_read =
        read_at(direct_.fd, slot.home, segment.n_bytes(), segment.begin - file_->begin);
    lock.lock();
    slot.outcome = is_read ? Outcome::kRead : Outcome::kFailed;
    has_read_.notify_all();
  }
}

}  // namespace bp::cpu
