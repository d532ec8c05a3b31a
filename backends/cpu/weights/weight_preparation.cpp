#include "backends/cpu/weights/weight_preparation.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "backends/cpu/available_memory.hpp"
#include "backends/cpu/weights/weight_cache_format.hpp"

namespace bp::cpu {

namespace {

std::string megabytes(uint64_t bytes) {
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

// A file that nobody asked for leaves as much of the disk free as it takes. It replaces what has
// its name.
bool may_fill(const std::string& folder, uint64_t n_bytes, std::optional<Prepare> wanted) {
  if (wanted) return true;
  struct statvfs disk {};
  std::error_code error;
  std::filesystem::path path = folder;
  while (!std::filesystem::exists(path, error) && path.has_relative_path()) {
    path = path.parent_path();
  }
  if (::statvfs(path.c_str(), &disk) != 0) return false;
  struct stat old {};
  const std::string file = folder + "/" + kCacheFileName;
  const bool replaces = ::stat(file.c_str(), &old) == 0;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t freed = replaces ? uint64_t{512} * static_cast<uint64_t>(old.st_blocks) : 0;
  return free >= n_bytes && free + freed >= 2 * n_bytes;
}

}  // namespace

WeightFiles weight_files(const ProgramView& program, const bp_compile_options& options) {
  WeightFiles files;
  for (const bp_weight& weight : program.weights()) files.data.push_back(data_part(weight)->data);
  const std::string folder = text_or_empty(options.cache_folder);
  std::error_code error;  // then there is no such file
  if (!folder.empty()) {
    files.path = std::filesystem::canonical(folder + "/" + kCacheFileName, error).string();
  }
  return files;
}

uint64_t available_beside_others(const WeightFiles& own) {
  const uint64_t available = available_memory_bytes();
  return available - std::min(available, other_mapped_bytes(own));
}

WeightPreparation::WeightPreparation(const Host& host, const bp_compile_options& options,
                                     std::optional<Prepare> wanted, const MemoryNeeds& needs,
                                     WeightFiles files)
    : host_(host),
      options_(options),
      wanted_(wanted),
      needs_(needs),
      files_(std::move(files)),
      folder_(text_or_empty(options.cache_folder)),
      content_key_(text_or_empty(options.content_key)) {
  const uint64_t available = available_beside_others(files_);
  // A file is begun only where the choice would fall on it.
  CacheState cache = look_for_cache();
  if (cache == CacheState::kWritable &&
      choose_preparation(wanted, needs, cache, available).prepare == Prepare::kCache) {
    auto writer = WeightCacheWriter::create(folder_, needs.cached);
    if (writer.ok()) {
      writer_ = std::move(writer).value();
    } else {
      log(BP_LOG_WARNING, "packed weights cannot be kept: " + writer.status().message());
      cache = CacheState::kNone;
    }
  }
  choice_ = choose_preparation(wanted, needs, cache, available);
  if (choice_.prepare != Prepare::kCache) cache_ = nullptr;
}

CacheState cache_state(const bp_compile_options& options, std::optional<Prepare> wanted,
                       const MemoryNeeds& needs) {
  const std::string folder = text_or_empty(options.cache_folder);
  const std::string content_key = text_or_empty(options.content_key);
  if (folder.empty() || content_key.empty() || needs.cached == 0) return CacheState::kNone;
  if (WeightCache::open(folder, content_key).ok()) return CacheState::kReady;
  const size_t slash = folder.find_last_of('/');
  const bool may_write = ::access(folder.c_str(), W_OK) == 0 ||
                         (errno == ENOENT && slash != std::string::npos &&
                          ::access(folder.substr(0, slash + 1).c_str(), W_OK) == 0);
  return may_write && may_fill(folder, needs.cached, wanted) ? CacheState::kWritable
                                                             : CacheState::kNone;
}

CacheState WeightPreparation::look_for_cache() {
  const bool may_cache = !wanted_ || wanted_ == Prepare::kCache;
  if (!may_cache || needs_.cached == 0) return CacheState::kNone;
  if (folder_.empty() || content_key_.empty()) {
    if (wanted_) log(BP_LOG_WARNING, "prepare: cache needs a cache folder, and there is none");
    return CacheState::kNone;
  }
  auto opened = WeightCache::open(folder_, content_key_);
  if (opened.ok()) {
    cache_ = std::move(opened).value();
    return CacheState::kReady;
  }
  if (opened.status().code() == Code::kInvalidArgument) {
    log(BP_LOG_INFO, opened.status().message() + ", so it is not used");
  }
  return may_fill(folder_, needs_.cached, wanted_) ? CacheState::kWritable : CacheState::kNone;
}

Status WeightPreparation::keep(PreparedWeights weights, const Team& team) {
  if (choice_.prepare != Prepare::kCache) return {};
  if (cache_ != nullptr && cache_->has_all(weights)) return {};
  const Status written = write_cache(weights, team);
  if (written.ok() || written.code() == Code::kCancelled) return written;
  log(BP_LOG_WARNING, "packed weights cannot be kept: " + written.message());
  writer_ = nullptr;
  // What an earlier file holds is used all the same.
  if (cache_ == nullptr) {
    choice_ =
        choose_preparation(wanted_, needs_, CacheState::kNone, available_beside_others(files_));
  }
  return {};
}

Status WeightPreparation::place(PreparedWeights weights, WeightStore& store, const Team& team) {
  BP_TRY(check_memory(weights));
  report();
  // What is mapped takes no time worth reporting.
  const Progress progress(cache_ == nullptr ? options_.progress : nullptr);
  return store.place(weights, cache_.get(), team, progress);
}

// Memory of our own that is not there would end the process instead of the call.
Status WeightPreparation::check_memory(PreparedWeights weights) const {
  uint64_t wanted = 0;
  for (const auto& weight : weights) {
    const bool is_cached = cache_ != nullptr && cache_->find(*weight) != nullptr;
    wanted += is_cached ? 0 : weight->bytes_to_place();
  }
  const uint64_t available = available_memory_bytes();
  if (wanted <= available) return {};
  return out_of_memory("packed weights would take " + megabytes(wanted) + " of " +
                       megabytes(available) + "; set prepare to auto, cache or none");
}

Status WeightPreparation::write_cache(PreparedWeights weights, const Team& team) {
  if (writer_ == nullptr) {
    if (!may_fill(folder_, needs_.cached, wanted_))
      return io_error("the disk has no room to spare");
    BP_ASSIGN(writer_, WeightCacheWriter::create(folder_, needs_.cached));
  }
  log(BP_LOG_INFO, "packing " + megabytes(needs_.cached) + " of weights into " + folder_);
  BP_TRY(writer_->write(weights, content_key_, team, Progress(options_.progress)));
  writer_ = nullptr;
  BP_ASSIGN(cache_, WeightCache::open(folder_, content_key_));
  return {};
}

void WeightPreparation::report() const {
  std::string text =
      megabytes(cache_ != nullptr ? needs_.cached : needs_.packed) + " of packed weights ";
  if (choice_.prepare == Prepare::kNone) {
    text = megabytes(needs_.source) + " of weights stay in their file and are packed in every step";
  } else if (cache_ != nullptr) {
    text += "mapped from " + folder_;
    if (needs_.unfiled > 0) text += ", " + megabytes(needs_.unfiled) + " in memory";
  } else {
    text += "in memory";
  }
  if (is_streamed()) {
    text += ", " + megabytes(choice_.resident_bytes) + " of them at once";
  }
  log(BP_LOG_INFO, text);
}

}  // namespace bp::cpu
