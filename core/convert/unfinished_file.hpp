#pragma once
// A file that gets its name once it is whole. Until then it is NAME.partial-PID beside it, which
// goes away on an error, on a signal that ends the process, and where the process was killed by one
// that cannot be caught, when the same name is next written.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "backplane/status.hpp"

namespace bp::convert {

// SIGINT, SIGTERM and SIGHUP remove the unfinished file before they end the process as ever. For
// programs, whose handlers these are; what is ignored stays so.
void remove_unfinished_on_signals();

// An error where a file of that name cannot be made: something else is there, as a folder or a
// device, or its folder cannot be written. For who has long work to do before the file is begun.
Status expect_file_place(const std::string& path);

class UnfinishedFile {
 public:
  // Errors name the file.
  static Result<UnfinishedFile> create(const std::string& path);
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&&) = delete;
  ~UnfinishedFile();

  [[nodiscard]] std::FILE* get() const { return file_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }  // once it is whole
  // On the disk and under its name.
  Status finish();
  // With the reason in errno.
  [[nodiscard]] Status failure(const char* doing) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  UnfinishedFile(std::string path, std::string partial);

  std::string path_;
  std::string partial_;  // empty once renamed, or where it could not be made
  bool is_for_signals_;  // it is the one that they remove
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace bp::convert
