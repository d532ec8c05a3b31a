#include "backends/cpu/weights/weight_cache_writer.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/round_up.hpp"
#include "backends/cpu/weights/weight_cache.hpp"
#include "backplane/abandoned_files.hpp"
#include "backplane/file_descriptor.hpp"
#include "backplane/file_mappings.hpp"

namespace bp::cpu {

namespace {

// Small enough for the memory that a mapped model may take, several huge pages for each worker.
constexpr size_t kStagingBytes = size_t{16} << 20;

Status failed(const std::string& path, const char* action, int error = errno) {
  return io_error(path + " cannot be " + action + ": " + std::strerror(error));
}

// False with the reason in errno.
bool write_all(int fd, const void* from, size_t n_bytes, uint64_t offset) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  while (n_bytes > 0) {
    const ssize_t n = ::pwrite(fd, bytes, n_bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return false;
    bytes += n;
    offset += static_cast<uint64_t>(n);
    n_bytes -= static_cast<size_t>(n);
  }
  return true;
}

// A new file, locked as long as it is open. Its name goes to the end of `path`.
int make_temporary(const std::string& folder, std::string& path) {
  // While another process is between making its file and locking it, nothing is removed.
  const FileDescriptor guard{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (guard.fd >= 0 && ::flock(guard.fd, LOCK_EX) == 0) {
    remove_abandoned(folder, std::string(kCacheFileName) + ".");
  }
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) static_cast<void>(::flock(fd, LOCK_EX | LOCK_NB));
  return fd;
}

}  // namespace

Result<std::unique_ptr<WeightCacheWriter>> WeightCacheWriter::create(const std::string& folder,
                                                                     uint64_t n_bytes) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return failed(folder, "made");
  std::string path = folder + "/" + kCacheFileName + ".XXXXXX";
  const int fd = make_temporary(folder, path);
  if (fd < 0) return failed(path, "made");
  std::unique_ptr<WeightCacheWriter> writer(new WeightCacheWriter(folder, path, fd));
  // Not every file system can reserve room.
  if (::fallocate(fd, 0, 0, static_cast<off_t>(n_bytes)) != 0 && errno != EOPNOTSUPP) {
    return failed(path, "given its room on the disk");
  }
  BP_ASSIGN(writer->staging_, AlignedBuffer::allocate(kStagingBytes, "packing weights"));
  return writer;
}

WeightCacheWriter::~WeightCacheWriter() {
  ::close(fd_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status WeightCacheWriter::write(std::span<const std::shared_ptr<PreparedWeight>> weights,
                                std::string_view content_key, const Team& team,
                                const Progress& progress) {
  CacheHeader header{};
  std::vector<CacheEntry> entries;
  std::vector<const PreparedWeight*> sources;
  for (const auto& weight : weights) {
    if (!is_cacheable(*weight)) continue;
    entries.push_back(cache_entry_of(*weight));
    sources.push_back(weight.get());
  }
  header.data_offset = round_up(sizeof header + entries.size() * sizeof(CacheEntry), kHugePage);
  uint64_t end = header.data_offset;
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].offset = end;
    entries[i].n_bytes = sources[i]->packed_bytes();
    end = round_up(end + entries[i].n_bytes, kCacheAlignment);
  }
  written_ = header.data_offset;
  const FileMappings mappings;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (progress.report(i, sources.size())) return cancelled("packing weights was stopped");
    BP_TRY(append(*sources[i], team));
    mappings.release(sources[i]->rows().data, sources[i]->rows().source_bytes());
  }
  BP_TRY(flush(staged_, team));
  if (progress.report(sources.size(), sources.size())) return cancelled("packing was stopped");
  std::memcpy(header.magic, kCacheMagic, sizeof kCacheMagic);
  header.version = kCacheVersion;
  header.byte_order = kCacheByteOrder;
  header.layout_version = kStripVersion;
  header.n_entries = static_cast<uint32_t>(entries.size());
  header.file_bytes = end;
  header.content_hash = cache_hash(content_key);
  header.checksum = cache_checksum(header, entries.data());
  return finish(header, entries);
}

Status WeightCacheWriter::append(const PreparedWeight& weight, const Team& team) {
  const size_t strip = weight.strip_bytes();
  // A strip of very many columns may be larger than all of it. With a huge page more there is one
  // to write wherever the next strip has no room.
  if (strip + kHugePage > staging_.size()) {
    BP_TRY(flush(staged_, team));
    const size_t bytes = round_up(strip, kHugePage) + kHugePage;
    BP_ASSIGN(staging_, AlignedBuffer::allocate(bytes, "packing weights"));
  }
  for (uint32_t first = 0; first < weight.n_strips();) {
    if (staging_.size() - staged_ < strip) {
      // Whole huge pages, so that the file's pages can be huge too.
      BP_TRY(flush(staged_ / kHugePage * kHugePage, team));
      continue;
    }
    const auto n = static_cast<uint32_t>(
        std::min<size_t>(weight.n_strips() - first, (staging_.size() - staged_) / strip));
    team.parallel_for(n, [&](uint64_t i) {
      weight.pack_into(first + static_cast<uint32_t>(i), 1, staging_.data() + staged_ + i * strip);
    });
    staged_ += n * strip;
    first += n;
  }
  const size_t aligned = round_up(staged_, kCacheAlignment);
  std::memset(staging_.data() + staged_, 0, aligned - staged_);
  staged_ = aligned;
  return {};
}

Status WeightCacheWriter::flush(size_t n_bytes, const Team& team) {
  std::atomic<int> error = 0;
  team.parallel_for((n_bytes + kHugePage - 1) / kHugePage, [&](uint64_t i) {
    const size_t first = i * kHugePage;
    if (!write_all(fd_, staging_.data() + first, std::min(kHugePage, n_bytes - first),
                   written_ + first)) {
      error = errno;
    }
  });
  if (error != 0) return failed(path_, "written", error);
  // Starts the disk's work now and bounds what is left for the end.
  ::sync_file_range(fd_, static_cast<off_t>(written_), static_cast<off_t>(n_bytes),
                    SYNC_FILE_RANGE_WRITE);
  std::memmove(staging_.data(), staging_.data() + n_bytes, staged_ - n_bytes);
  staged_ -= n_bytes;
  written_ += n_bytes;
  return {};
}

Status WeightCacheWriter::finish(CacheHeader header, std::span<const CacheEntry> entries) {
  const bool ok = ::ftruncate(fd_, static_cast<off_t>(header.file_bytes)) == 0 &&
                  write_all(fd_, entries.data(), entries.size_bytes(), sizeof header) &&
                  write_all(fd_, &header, sizeof header, 0) && ::fchmod(fd_, 0644) == 0 &&
                  ::fsync(fd_) == 0;
  if (!ok) return failed(path_, "written");
  const std::string name = folder_ + "/" + kCacheFileName;
  if (::rename(path_.c_str(), name.c_str()) != 0) return failed(name, "written");
  path_.clear();
  const FileDescriptor folder{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) ::fsync(folder.fd);
  return {};
}

}  // namespace bp::cpu
