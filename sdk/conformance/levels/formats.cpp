// Files, whole and damaged: whatever the bytes, a format opens them or says in a sentence why not.

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "sdk/conformance/kinds/attempt.hpp"
#include "sdk/conformance/kinds/damaged_file.hpp"
#include "sdk/conformance/kinds/guarded_memory.hpp"
#include "sdk/conformance/kinds/model_tables.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/probe/allocations.hpp"
#include "sdk/conformance/probe/sanitizer.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeadBytes = 4096;  // most that probe gets

bp_format format_of(Subject& subject) {
  return subject.factory<bp_format>(BP_FORMAT_ID);
}

std::vector<uint8_t> head_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<uint8_t> head(kHeadBytes);
  in.read(reinterpret_cast<char*>(head.data()), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head;
}

// Confidence for a path whose first bytes end at a page that nobody may touch.
uint32_t confidence(const bp_format& format, const fs::path& path, std::span<const uint8_t> head) {
  GuardedArray<uint8_t> guarded(head);
  guarded.make_read_only();
  const Attempt attempt("probe of " + path.string() + " with " + std::to_string(head.size()) +
                        " bytes of its head");
  const uint32_t found =
      format.probe(path.c_str(), fs::is_directory(path) ? 1 : 0, guarded.data(), guarded.size());
  require(found <= 100, "probe gives the confidence " + std::to_string(found) + ", at most 100");
  return found;
}

// A model that the format reads: --model, or else the tool's own where the format knows it.
fs::path model_of(Subject& subject) {
  const bp_format format = format_of(subject);
  const fs::path given = subject.options().model;
  const fs::path path = fs::absolute(given.empty() ? test_model() : given);
  if (fs::is_directory(path)) return path;
  if (confidence(format, path, head_of(path)) > 0) return path;
  if (given.empty()) throw Skip("give a file of this format with --model");
  throw Failure("probe gives the confidence 0 for " + path.string());
}

// ---- probe --------------------------------------------------------------------------------------

void knows_its_own(Subject& subject) {
  const fs::path path = model_of(subject);
  const auto head = fs::is_directory(path) ? std::vector<uint8_t>() : head_of(path);
  require(confidence(format_of(subject), path, head) > 0,
          "probe gives the confidence 0 for " + path.string());
}

void knows_no_others(Subject& subject) {
  const bp_format format = format_of(subject);
  std::mt19937_64 random(subject.options().seed);
  for (uint64_t n = 0; n <= kHeadBytes; n = n < 16 ? n + 1 : n * 2) {
    std::vector<uint8_t> head(n);
    for (uint8_t& byte : head) byte = static_cast<uint8_t>(random());
    const uint32_t of_noise = confidence(format, "/nowhere/noise.bin", head);
    std::fill(head.begin(), head.end(), uint8_t{0});
    const uint32_t of_zeros = confidence(format, "/nowhere/zeros.bin", head);
    require(of_noise == 0 && of_zeros == 0, "probe claims " + std::to_string(n) +
                                                " bytes of noise or zeros, with the confidence " +
                                                std::to_string(std::max(of_noise, of_zeros)));
  }
}

void probes_purely(Subject& subject) {
  const bp_format format = format_of(subject);
  const fs::path path = model_of(subject);
  if (fs::is_directory(path)) throw Skip("for a folder, probe may look into it");
  const auto head = head_of(path);
  const fs::path nowhere = "/nowhere" / path.filename();
  const uint32_t first = confidence(format, path, head);
  const uint32_t again = confidence(format, nowhere, head);
  require(first == again, "probe gives " + std::to_string(first) + " and " + std::to_string(again) +
                              " for the same head under another path: "
                              "it must not open the file");
  for (size_t n = 0; n < head.size(); n = n < 64 ? n + 1 : n + 61) {
    confidence(format, path, std::span(head).first(n));
  }
}

// ---- whole files --------------------------------------------------------------------------------

void opens(Subject& subject) {
  const OpenModel model(format_of(subject), model_of(subject));
  require(model.status().ok(), "open fails: " + model.status().message());
  require(model.tables().n_tensors > 0, "the model has no tensors: give a real one with --model");
  require_sound(model);
}

void opens_twice(Subject& subject) {
  const bp_format format = format_of(subject);
  const fs::path path = model_of(subject);
  const OpenModel first(format, path);
  require(first.status().ok(), "open fails: " + first.status().message());
  const std::string before = text_of(first.tables());
  {
    const OpenModel second(format, path);
    require(second.status().ok(), "a second open fails: " + second.status().message());
    require(text_of(second.tables()) == before, "two opens of one file give different tables");
  }
  require(text_of(first.tables()) == before, "closing one model changed another one");
}

size_t n_open_files() {
  const fs::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

void frees_all(Subject& subject) {
  const bp_format format = format_of(subject);
  const fs::path path = model_of(subject);
  const auto cycle = [&] { const OpenModel model(format, path); };
  cycle();
  const int64_t bytes = allocated_bytes();
  const size_t files = n_open_files();
  for (int i = 0; i < 20; ++i) cycle();
  require(n_open_files() <= files, std::to_string(n_open_files() - files) +
                                       " files are still open after 20 models were closed");
  const int64_t leaked = allocated_bytes() - bytes;
  require(leaked < 20 * 8, std::to_string(leaked) +
                               " bytes are still held after 20 models were "
                               "closed");
}

// Opens the file while allocation n fails; whether one did.
bool open_without(const bp_format& format, const fs::path& path, const Allocators& allocators,
                  uint64_t n) {
  bp_model_file* model = nullptr;
  bp_error error{};
  const int64_t before = allocated_bytes();
  bp_status code = BP_OK;
  bool failed = false;
  {
    const FailingAllocation failing(n, allocators);
    code = format.open(nullptr, path.c_str(), &model, &error);
    failed = failing.has_failed();
  }
  if (code == BP_OK) format.close(model);
  const int64_t leaked = allocated_bytes() - before;
  const std::string where = " where allocation " + std::to_string(n) + " fails";
  require(code == BP_OK || failed, "open fails: " + std::string(error.message));
  require(code == BP_OK || (code == BP_OUT_OF_MEMORY && error.message[0] != 0),
          "open gives code " + std::to_string(code) + " and \"" + error.message + "\"" + where +
              "; it must be OUT_OF_MEMORY with a sentence");
  // The first exceptions that a process throws may fill the C++ library's caches.
  require(n < 3 || leaked < 64, "open leaks " + std::to_string(leaked) + " bytes" + where);
  return failed;
}

void survives_scarce_memory(Subject& subject) {
  if (kSanitized) throw Skip("a sanitizer's allocator cannot be made to fail");
  const bp_format format = format_of(subject);
  const fs::path path = model_of(subject);
  const Allocators allocators(reinterpret_cast<const void*>(subject.query()));
  for (uint64_t n = 1;; n += 1 + n / 8) {
    const Attempt attempt("open, whose allocation " + std::to_string(n) + " fails");
    if (!open_without(format, path, allocators, n)) return;
  }
}

void require_refused(const bp_format& format, const fs::path& path, bp_status code) {
  const Attempt attempt("open of " + path.string());
  const OpenModel model(format, path);
  require(!model.status().ok(), "open of " + path.string() + " gives OK");
  const auto found = static_cast<bp_status>(model.status().code());
  require(code == BP_OK || found == code,
          "open of " + path.string() + " fails with code " + std::to_string(found) + ", expected " +
              std::to_string(code) + ": " + model.status().message());
  require(model.status().message().find(path.filename().string()) != std::string::npos,
          "the message does not name the file " + path.filename().string() + ": " +
              model.status().message());
}

void refuses_other_files(Subject& subject) {
  const bp_format format = format_of(subject);
  const DamagedFile copy(test_model());
  require_refused(format, copy.folder() / "missing.bin", BP_IO_ERROR);
  copy.truncate(0);
  require_refused(format, copy.path(), BP_OK);
  const std::vector<char> noise(10'000, '\x5a');
  std::ofstream(copy.folder() / "noise.bin", std::ios::binary)
      .write(noise.data(), static_cast<std::streamsize>(noise.size()));
  require_refused(format, copy.folder() / "noise.bin", BP_OK);
  fs::create_directory(copy.folder() / "empty");
  require_refused(format, copy.folder() / "empty", BP_OK);
}

// ---- damaged files ------------------------------------------------------------------------------

// The bytes before the first tensor: where tables lie, and damage is worth most.
uint64_t table_bytes(const bp_format& format, const DamagedFile& copy) {
  const OpenModel model(format, copy.path());
  require(model.status().ok(), "open fails: " + model.status().message());
  uint64_t end = copy.original().size();
  for (uint64_t i = 0; i < model.tables().n_tensors; ++i) {
    end = std::min(end, model.tables().tensors[i].offset);
  }
  return std::max<uint64_t>(end, 1);
}

// Opens a damaged file: either it is refused in a sentence, or what it says is sound.
void open_damaged(const bp_format& format, const DamagedFile& copy, const std::string& damage) {
  const Attempt attempt("open of " + copy.path().filename().string() + " " + damage);
  try {
    const OpenModel model(format, copy.path());
    if (model.status().ok()) require_sound(model);
  } catch (const Failure& failure) {
    throw Failure(std::string(failure.what()) + " (" + damage + ")");
  }
}

void survives_truncation(Subject& subject) {
  const bp_format format = format_of(subject);
  const DamagedFile copy(model_of(subject));
  const uint64_t size = copy.original().size(), table = table_bytes(format, copy);
  std::vector<uint64_t> lengths;
  for (uint64_t n = 0; n < std::min<uint64_t>(table, 128); ++n) lengths.push_back(n);
  // Where a file ends with a page, whatever lies behind cannot be read by luck.
  for (uint64_t i = 0, page = 4096; i * page < size; i += 1 + i / 16) lengths.push_back(i * page);
  std::mt19937_64 random(subject.options().seed);
  for (int i = 0; i < 300; ++i) lengths.push_back(random() % table);
  for (int i = 0; i < 50; ++i) lengths.push_back(random() % size);
  lengths.push_back(size - 1);
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  for (const uint64_t n : lengths) {
    copy.truncate(n);
    open_damaged(format, copy, "cut off after " + std::to_string(n) + " bytes");
  }
}

void survives_bit_flips(Subject& subject) {
  const bp_format format = format_of(subject);
  const DamagedFile copy(model_of(subject));
  const uint64_t table = table_bytes(format, copy);
  std::mt19937_64 random(subject.options().seed);
  for (int i = 0; i < 2000; ++i) {
    // The first bytes hold magic, version and counts; a quarter of the damage goes there.
    const uint64_t limit = i % 4 == 0 ? std::min<uint64_t>(table, 256) : table;
    const uint64_t at = random() % limit;
    const auto bit = static_cast<uint32_t>(random() % 8);
    const auto flipped = static_cast<uint8_t>(copy.original()[at] ^ (1u << bit));
    copy.overwrite(at, &flipped, 1);
    open_damaged(format, copy,
                 "with bit " + std::to_string(bit) + " of byte " + std::to_string(at) + " flipped");
    copy.restore(at, 1);
  }
}

// Memory that a file of some bytes may take; what counts of a damaged file claim is not to be had.
void limit_memory(uint64_t file_bytes) {
  if (kSanitized) return;  // its shadow takes terabytes of addresses
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  limit.rlim_cur = pages * 4096 + 16 * file_bytes + (uint64_t{256} << 20);
  setrlimit(RLIMIT_AS, &limit);
}

void survives_extreme_numbers(Subject& subject) {
  const bp_format format = format_of(subject);
  const DamagedFile copy(model_of(subject));
  const uint64_t table = table_bytes(format, copy);
  limit_memory(copy.original().size());
  constexpr uint64_t kNumbers[] = {UINT64_MAX,        INT64_MAX,         uint64_t{1} << 63,
                                   uint64_t{1} << 61, uint64_t{1} << 32, UINT32_MAX,
                                   INT32_MAX,         uint64_t{1} << 30, 0};
  std::mt19937_64 random(subject.options().seed);
  for (int i = 0; i < 1500; ++i) {
    const uint64_t number = kNumbers[random() % std::size(kNumbers)];
    const uint64_t n = random() % 2 == 0 ? 8 : 4;
    if (table < n) continue;
    const uint64_t limit = (i % 4 == 0 ? std::min<uint64_t>(table, 256) : table) - n + 1;
    const uint64_t at = random() % limit;
    copy.overwrite(at, &number, n);
    open_damaged(format, copy,
                 "with " + std::to_string(number) + " in " + std::to_string(n) +
                     " bytes at offset " + std::to_string(at));
    copy.restore(at, n);
  }
}

}  // namespace

void add_formats_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "formats", description, body});
  };
  add("formats-probe-own", "probe recognises a file of the format", knows_its_own);
  add("formats-probe-others", "probe gives 0 for noise, zeros and nothing", knows_no_others);
  add("formats-probe-pure", "probe looks at the bytes it was given and nothing else",
      probes_purely);
  add("formats-open", "names are unique, types known, tensors inside their files", opens);
  add("formats-open-twice", "two open models of one file are equal and independent", opens_twice);
  add("formats-close", "close frees all memory and files", frees_all);
  add("formats-scarce-memory", "a failing allocation is OUT_OF_MEMORY and leaks nothing",
      survives_scarce_memory);
  add("formats-other-files", "missing, empty and foreign files and folders are refused by name",
      refuses_other_files);
  add("formats-truncated", "a file cut off anywhere is refused or sound", survives_truncation);
  add("formats-bit-flips", "thousands of flipped bits are refused or sound", survives_bit_flips);
  add("formats-extreme-numbers", "huge counts and offsets take no huge memory",
      survives_extreme_numbers);
}

}  // namespace bp::conformance
