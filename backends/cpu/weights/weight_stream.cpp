#include "backends/cpu/weights/weight_stream.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/weights/file_pages.hpp"

namespace bp::cpu {

namespace {

constexpr uint64_t kSegmentBytes = uint64_t{8} << 20;  // a multiple of a huge page
constexpr uint64_t kWindowBytes = uint64_t{128} << 20;
constexpr uint64_t kLeastWindowBytes = uint64_t{32} << 20;
constexpr uint64_t kPageWindowBytes = uint64_t{32} << 20;  // beside a window of another kind
constexpr uint32_t kNearStages = 16;

}  // namespace

std::vector<WeightStream::Segment> WeightStream::cut(std::span<const Use> uses) {
  // Of each part of the address space that is used, by its number.
  std::map<uintptr_t, Segment> parts;
  std::vector<uintptr_t> order;
  for (const Use& use : uses) {
    const auto begin = reinterpret_cast<uintptr_t>(use.bytes.data()) / kSmallPage * kSmallPage;
    const auto last = reinterpret_cast<uintptr_t>(use.bytes.data()) + use.bytes.size();
    const uintptr_t end = (last + kSmallPage - 1) / kSmallPage * kSmallPage;
    const uint32_t last_stage = std::max(use.stage, use.last_stage);
    for (uintptr_t at = begin; at < end;) {
      const uintptr_t number = at / kSegmentBytes;
      const uintptr_t until = std::min(end, (number + 1) * kSegmentBytes);
      const auto [entry, is_new] = parts.try_emplace(
          number, Segment{{at, until, use.stage, last_stage}, use.is_chosen, false});
      Segment& segment = entry->second;
      // By a distant stage, for which it would be brought again or wait long.
      const bool is_again = use.stage > segment.last_stage + kNearStages;
      segment.is_reread = segment.is_reread || is_again;
      segment.begin = std::min(segment.begin, at);
      segment.end = std::max(segment.end, until);
      segment.last_stage = std::max(segment.last_stage, last_stage);
      segment.is_chosen = segment.is_chosen && use.is_chosen;
      if (is_new) order.push_back(number);
      at = until;
    }
  }
  std::vector<Segment> segments;
  for (const uintptr_t number : order) segments.push_back(parts.at(number));
  return segments;
}

WeightStream::WeightStream(std::span<const Use> uses, uint64_t resident_bytes,
                           const std::shared_ptr<const MappedFile>& file) {
  std::vector<Segment> segments = cut(uses);
  const auto chosen = std::stable_partition(
      segments.begin(), segments.end(), [](const Segment& segment) { return !segment.is_chosen; });
  const auto share_out_all = [&](uint64_t room) {
    share_out({segments.begin(), chosen}, room);
    share_out({chosen, segments.end()}, room - std::min(room, resident_bytes_));
    // Memory of our own, so not most of what there is.
    const uint64_t most = std::max(kLeastWindowBytes, room / 16);
    direct_ = DirectWindow::create(file, streamed_, kSegmentBytes, most);
  };
  share_out_all(resident_bytes);
  if (window_bytes() <= kWindowBytes) return;
  // More than what resident_bytes leaves for it.
  const uint64_t excess = window_bytes() - kWindowBytes;
  *this = WeightStream();
  share_out_all(resident_bytes - std::min(resident_bytes, excess));
}

void WeightStream::share_out(std::span<const Segment> segments, uint64_t room) {
  uint64_t total = 0;
  for (const Segment& segment : segments) total += segment.n_bytes();
  const double share = room >= total ? 1 : static_cast<double>(room) / static_cast<double>(total);
  const uint64_t before = resident_bytes_;
  uint64_t seen = 0;
  for (const Segment& segment : segments) {
    seen += segment.n_bytes();
    const bool stays = resident_bytes_ - before + segment.n_bytes() <=
                       static_cast<uint64_t>(share * static_cast<double>(seen)) + 1;
    if (share >= 1 || segment.is_reread || stays) {
      resident_bytes_ += segment.n_bytes();
      resident_.push_back(segment);
    } else {
      streamed_bytes_ += segment.n_bytes();
      if (!segment.is_chosen) streamed_.push_back(segment);
    }
  }
}

Status WeightStream::load(const Team& team, const Progress& progress) const {
  constexpr size_t kTogether = 16;
  for (size_t first = 0; first < resident_.size(); first += kTogether) {
    if (progress.report(first, resident_.size())) return cancelled("loading was stopped");
    const size_t n = std::min(kTogether, resident_.size() - first);
    team.parallel_for(n, [&](uint64_t i) {
      fault_in(resident_[first + i].data(), resident_[first + i].n_bytes());
    });
  }
  return {};
}

void WeightStream::advance(uint32_t stage) {
  if (direct_ != nullptr) direct_->advance(stage);
  if (!streamed_.empty()) advance_pages(stage);
}

void WeightStream::advance_pages(uint32_t stage) {
  const uint64_t n = streamed_.size();
  const auto at = [&](uint64_t i) -> const StreamedSegment& { return streamed_[i % n]; };
  if (stage == 0) step_begin_ = n * n_steps_++;
  const auto is_begun = [&](uint64_t i) { return i < step_begin_ || at(i).first_stage <= stage; };
  for (; begun_ < ahead_ && is_begun(begun_); ++begun_) ahead_bytes_ -= at(begun_).n_bytes();
  // Behind: all of earlier steps, and of this one what no later stage reads.
  const auto is_done = [&](uint64_t i) { return i < step_begin_ || at(i).last_stage < stage; };
  for (; released_ < ahead_ && is_done(released_); ++released_) {
    drop_pages(at(released_).data(), at(released_).n_bytes());
  }
  // A step that was broken off has left segments unread.
  if (released_ == ahead_ && ahead_ < step_begin_) released_ = begun_ = ahead_ = step_begin_;
  const uint64_t window = direct_ == nullptr ? kWindowBytes : kPageWindowBytes;
  for (; ahead_bytes_ < window && ahead_ < released_ + n; ++ahead_) {
    read_ahead(at(ahead_).data(), at(ahead_).n_bytes());
    ahead_bytes_ += at(ahead_).n_bytes();
  }
}

}  // namespace bp::cpu
