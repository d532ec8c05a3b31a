// Archives that break a rule of the zip reader, each refused in a sentence.

#include "fixture.hpp"

#include "formats/pytorch/zip.hpp"

namespace bp::pytorch {
namespace {

Result<std::map<std::string, ZipEntry>> entries_of(const std::string& bytes) {
  return read_zip(FileBytes::of_memory("m.pt", bytes));
}

Zip two_entries() {
  return zip({{"m/a", std::string(10, 'a')}, {"m/b", std::string(20, 'b')}});
}

TEST(Zip, EntriesAreFound) {
  const Zip archive = two_entries();
  const auto entries = entries_of(archive.bytes);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 2u);
  const ZipEntry& b = entries->at("m/b");
  EXPECT_EQ(b.offset % 64, 0u);
  EXPECT_EQ(archive.bytes.substr(b.offset, b.n_bytes), std::string(20, 'b'));
}

// Without the 64-bit end record, and with sizes in 64-bit fields.
TEST(Zip, BothFormsOfSizesAreRead) {
  Zip archive = two_entries();
  std::string plain = archive.bytes;
  plain.erase(archive.end64_at, archive.end_at - archive.end64_at);
  EXPECT_TRUE(entries_of(plain).ok());

  const std::string extra = le(uint16_t{1}) + le(uint16_t{24}) + le(uint64_t{20}) +
                            le(uint64_t{20}) + le(uint64_t{archive.local_at[1]});
  const size_t at = archive.directory_at[1];
  archive.patch(at + 20, UINT32_MAX).patch(at + 24, UINT32_MAX).patch(at + 42, UINT32_MAX);
  archive.patch(at + 30, static_cast<uint16_t>(extra.size()));
  archive.bytes.insert(archive.end64_at, extra);
  const auto grown = static_cast<uint32_t>(extra.size());
  const size_t end64_at = archive.end64_at + grown, end_at = archive.end_at + grown;
  archive.patch(end64_at + 40, uint64_t{2 * (46 + 3) + grown});
  archive.patch(end64_at + 56 + 8, uint64_t{end64_at});
  archive.patch(end_at + 12, uint32_t{2 * (46 + 3) + grown});
  const auto entries = entries_of(archive.bytes);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ(entries->at("m/b").n_bytes, 20u);

  archive.patch(end64_at - extra.size() + 2, uint16_t{16});
  expect_refused(entries_of(archive.bytes).status(), "a 64-bit size is missing");
}

struct Broken {
  const char* name;
  void (*damage)(Zip&);
  const char* rule;
};

const Broken kBroken[] = {
    {"cut_short", [](Zip& z) { z.bytes.pop_back(); }, "cut short, or has bytes behind"},
    {"bytes_behind", [](Zip& z) { z.bytes += "x"; }, "cut short, or has bytes behind"},
    {"tiny", [](Zip& z) { z.bytes.resize(21); }, "ends before the end record"},
    {"comment", [](Zip& z) { z.patch(z.end_at + 20, uint16_t{1}); }, "a comment"},
    {"volumes", [](Zip& z) { z.patch(z.end_at + 4, uint16_t{1}); }, "several volumes"},
    {"counts", [](Zip& z) { z.patch(z.end_at + 8, uint16_t{1}); }, "several volumes"},
    {"counts_64", [](Zip& z) { z.patch(z.end64_at + 24, uint64_t{1}); }, "several volumes"},
    {"ends_disagree", [](Zip& z) { z.patch(z.end_at + 16, uint32_t{0}); }, "records of the zip"},
    {"locator_astray", [](Zip& z) { z.patch(z.end64_at + 64, uint64_t{0}); }, "before its locator"},
    {"record_64_gone", [](Zip& z) { z.patch(z.end64_at, uint32_t{0}); }, "64-bit end record must"},
    {"record_64_size", [](Zip& z) { z.patch(z.end64_at + 4, uint64_t{45}); }, "size is another"},
    {"directory_size",
     [](Zip& z) { z.patch(z.end64_at + 40, UINT64_MAX).patch(z.end_at + 12, UINT32_MAX); },
     "does not end at its end record"},
    {"directory_offset",
     [](Zip& z) { z.patch(z.end64_at + 48, UINT64_MAX - 3).patch(z.end_at + 16, UINT32_MAX); },
     "does not end at its end record"},
    {"too_many",
     [](Zip& z) {
       z.patch(z.end64_at + 24, UINT64_MAX).patch(z.end64_at + 32, UINT64_MAX);
       z.patch(z.end_at + 8, UINT32_MAX);
     },
     "entries in"},
    {"fewer",
     [](Zip& z) {
       z.patch(z.end64_at + 24, uint64_t{1}).patch(z.end64_at + 32, uint64_t{1});
       z.patch(z.end_at + 8, uint32_t{0x10001});
     },
     "between the zip's directory"},
    {"entry_signature", [](Zip& z) { z.patch(z.directory_at[1], 0u); }, "directory must lie here"},
    {"encrypted", [](Zip& z) { z.patch(z.directory_at[0] + 8, uint16_t{1}); }, "encrypted"},
    {"compressed", [](Zip& z) { z.patch(z.directory_at[0] + 10, uint16_t{8}); }, "by method 8"},
    {"two_sizes", [](Zip& z) { z.patch(z.directory_at[0] + 20, 9u); }, "two sizes"},
    {"size_64_missing",
     [](Zip& z) {
       z.patch(z.directory_at[0] + 20, UINT32_MAX).patch(z.directory_at[0] + 24, UINT32_MAX);
     },
     "64-bit size is missing"},
    {"disk", [](Zip& z) { z.patch(z.directory_at[0] + 34, uint16_t{1}); }, "several volumes"},
    {"parent", [](Zip& z) { z.bytes.replace(z.directory_at[0] + 46, 3, "../"); }, "relative path"},
    {"absolute", [](Zip& z) { z.bytes.replace(z.directory_at[0] + 46, 3, "/ma"); },
     "relative path"},
    {"backslash", [](Zip& z) { z.bytes.replace(z.directory_at[0] + 46, 3, "m\\a"); },
     "relative path"},
    {"nul", [](Zip& z) { z.bytes[z.directory_at[0] + 47] = '\0'; }, "relative path"},
    {"not_utf8", [](Zip& z) { z.bytes[z.directory_at[0] + 47] = '\xff'; }, "relative path"},
    {"local_offset", [](Zip& z) { z.patch(z.directory_at[0] + 42, 1u); }, "an entry must lie here"},
    {"local_beyond", [](Zip& z) { z.patch(z.directory_at[0] + 42, UINT32_MAX - 1); },
     "behind all entries"},
    {"local_signature", [](Zip& z) { z.patch(z.local_at[0], 0u); }, "an entry must lie here"},
    {"local_encrypted", [](Zip& z) { z.patch(z.local_at[0] + 6, uint16_t{0x2001}); }, "encrypted"},
    {"local_compressed", [](Zip& z) { z.patch(z.local_at[0] + 8, uint16_t{12}); }, "by method 12"},
    {"local_size", [](Zip& z) { z.patch(z.local_at[0] + 18, uint64_t{0x0000000900000009}); },
     "another size"},
    {"local_name", [](Zip& z) { z.bytes[z.local_at[0] + 30] = 'x'; }, "another name"},
    {"local_name_length", [](Zip& z) { z.patch(z.local_at[0] + 26, uint16_t{0xffff}); },
     "header without an end"},
    {"local_extra", [](Zip& z) { z.patch(z.local_at[0] + 35, uint16_t{0xffff}); },
     "extra field ends early"},
    {"into_directory",
     [](Zip& z) { z.patch(z.directory_at[1] + 20, 4000u).patch(z.directory_at[1] + 24, 4000u); },
     "reaches into the zip's directory"},
    {"overlap",
     [](Zip& z) { z.patch(z.directory_at[0] + 20, 100u).patch(z.directory_at[0] + 24, 100u); },
     "overlaps"},
    {"same_entry_twice",
     [](Zip& z) {
       z.patch(z.directory_at[1] + 42, 0u).patch(z.directory_at[1] + 20, 10u);
       z.patch(z.directory_at[1] + 24, 10u);
       z.bytes[z.directory_at[1] + 48] = 'a';
     },
     "stands twice"},
};

class BrokenZip : public testing::TestWithParam<Broken> {};

TEST_P(BrokenZip, IsRefused) {
  Zip archive = two_entries();
  GetParam().damage(archive);
  expect_refused(entries_of(archive.bytes).status(), GetParam().rule);
}

INSTANTIATE_TEST_SUITE_P(All, BrokenZip, testing::ValuesIn(kBroken),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace bp::pytorch
