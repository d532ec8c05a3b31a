#include "core/plugin/library_file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "backplane/file_mappings.hpp"

namespace bp::plugin {

namespace {

namespace fs = std::filesystem;

// Device and inode of the file mapped at an address; overlay file systems answer otherwise to stat.
std::string mapped_file(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto mapping = MappingLine::parse(line);
    if (mapping && mapping->holds(address)) return mapping->file;
  }
  return {};
}

std::string file_at(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  void* page = mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return {};
  std::string file = mapped_file(page);
  munmap(page, 1);
  return file;
}

// Whether the loader knows the path, and for another file than is there now.
bool is_replaced(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;
  const bool replaced = known && mapped_file(map->l_ld) != file_at(path);
  dlclose(handle);
  return replaced;
}

// FNV-1a, 64 bits.
uint64_t hash_of(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The path under which a copy of that name is loaded already. Copies keep their file descriptors
// open, so that no other file gets their path /proc/self/fd/N.
std::optional<std::string> find_loaded_copy(const std::string& name) {
  struct Search {
    const std::string& name;
    std::optional<std::string> found;
  } search{name, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* user) {
        auto& s = *static_cast<Search*>(user);
        const std::string path = info->dlpi_name;
        if (!path.starts_with("/proc/self/fd/")) return 0;
        std::error_code ignored;
        if (fs::read_symlink(path, ignored).string().find(s.name) == std::string::npos) return 0;
        s.found = path;
        return 1;
      },
      &search);
  return search.found;
}

bool write_all(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

Result<std::string> make_copy(const std::string& name, const std::string& bytes) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0 || !write_all(fd, bytes)) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) close(fd);
    return io_error(fmt::format("the changed library cannot be copied into memory: {}", why));
  }
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace

Result<std::string> path_of_current_code(const std::string& path) {
  if (!is_replaced(path)) return path;
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error("cannot be read");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  // A name of a file in memory has at most 249 bytes.
  const std::string file_name = fs::path(path).filename().string().substr(0, 200);
  const std::string name = fmt::format("{}.{:016x}", file_name, hash_of(bytes));
  if (auto loaded = find_loaded_copy(name)) return *loaded;
  return make_copy(name, bytes);
}

}  // namespace bp::plugin
