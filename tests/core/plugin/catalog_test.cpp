// Manifests are read, refused and listed without loading a library.

#include "core/plugin/catalog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace bp::plugin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest()
      : folder_(fs::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CatalogTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // A manifest with a library file beside it.
  void write_plugin(const std::string& id, const std::string& more) const {
    write(id + ".plugin.yaml", "schema: 1\nid: " + id + "\nversion: 1.0.0\nabi: \"0.1\"\n" + more);
    write(id + ".so", "no code");
  }
  [[nodiscard]] CatalogEntry only_entry() const {
    const auto catalog = Catalog::scan({folder_.string()});
    EXPECT_TRUE(catalog.ok());
    EXPECT_EQ(catalog->entries().size(), 1u);
    return catalog->entries().front();
  }

  fs::path folder_;
};

TEST_F(CatalogTest, ListsAUsablePlugin) {
  write_plugin("mine", "kinds: [bp.scheduler/1]\n");
  const CatalogEntry entry = only_entry();
  EXPECT_TRUE(entry.usable) << entry.reason;
  EXPECT_EQ(entry.manifest.library, (folder_ / "mine.so").string());
}

TEST_F(CatalogTest, SaysThatTheLibraryIsMissing) {
  write_plugin("mine", "kinds: [bp.scheduler/1]\n");
  fs::remove(folder_ / "mine.so");
  EXPECT_THAT(only_entry().reason, HasSubstr("mine.so is missing"));
}

TEST_F(CatalogTest, SaysWhichCpuFeatureIsMissing) {
  write_plugin("mine", "kinds: [bp.backend/1]\nrequires: {cpu: [warp-drive]}\n");
  EXPECT_THAT(only_entry().reason, HasSubstr("needs the CPU feature 'warp-drive'"));
}

TEST_F(CatalogTest, SaysWhichSystemLibraryIsMissing) {
  write_plugin("mine", "kinds: [bp.backend/1]\nrequires: {libraries: [libnowhere.so.9]}\n");
  EXPECT_THAT(only_entry().reason, HasSubstr("needs the library libnowhere.so.9"));
}

TEST_F(CatalogTest, RefusesAnotherMinorWhileTheMajorIsZero) {
  write("mine.plugin.yaml",
        "schema: 1\nid: mine\nversion: 1.0.0\nabi: \"0.0\"\nkinds: [bp.backend/1]\n");
  write("mine.so", "");
  EXPECT_THAT(only_entry().reason,
              AllOf(HasSubstr("built for ABI 0.0"), HasSubstr("build the plugin again")));
}

TEST_F(CatalogTest, RefusesAHigherSchema) {
  write("mine.plugin.yaml", "schema: 2\nid: mine\n");
  EXPECT_THAT(only_entry().reason, AllOf(HasSubstr("mine.plugin.yaml:1:9"), HasSubstr("newer")));
}

TEST_F(CatalogTest, WarnsOfUnknownKeys) {
  write_plugin("mine", "kinds: [bp.backend/1]\nversoin: 2\n");
  const CatalogEntry entry = only_entry();
  EXPECT_TRUE(entry.usable);
  ASSERT_EQ(entry.manifest.warnings.size(), 1u);
  EXPECT_THAT(entry.manifest.warnings[0],
              AllOf(HasSubstr("mine.plugin.yaml:6:"), HasSubstr("nearest: version")));
}

TEST_F(CatalogTest, ReportsBrokenManifestsWithTheirPlace) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"- 1\n", "is a map"},
      {"id: x\n", "'schema' is missing"},
      {"schema: 1\nid: \"No Good\"\n", ":2:5: id: 'No Good' is no id"},
      {"schema: 1\nid: x\nversion: 1\nabi: one\n", "abi: must be MAJOR.MINOR"},
      {"schema: 1\nid: x\nversion: 1\nabi: \"0.1\"\n", "'kinds' is missing"},
      {"schema: 1\nid: x\nversion: 1\nabi: \"0.1\"\nkinds: [backend]\n", "is no kind"},
      {"schema: 1\nid: x\nversion: 1\nabi: \"0.1\"\nkinds: [a/1]\nlibrary: ../x.so\n",
       "a file name without a folder"},
      {"schema: 1\nid: x\nversion: 1\nabi: \"0.1\"\nkinds: [a/1]\nconfig: {k: {type: into}}\n",
       "type 'into' is none of"},
      {"schema: 1\nid: x\nversion: 1\nabi: \"0.1\"\nkinds: [a/1]\n"
       "config: {k: {type: int, max: 3, default: 4}}\n",
       "config.k.default: must be at most 3, not 4"},
      {"schema: [1\n", "mine.plugin.yaml:"},
  };
  for (const Case& c : cases) {
    write("mine.plugin.yaml", c.text);
    const CatalogEntry entry = only_entry();
    EXPECT_FALSE(entry.usable) << c.text;
    EXPECT_THAT(entry.reason, HasSubstr(c.expected)) << c.text;
  }
}

TEST_F(CatalogTest, FindsByIdAndKindAndNamesTheNearest) {
  write_plugin("fcfs", "kinds: [bp.scheduler/1]\n");
  const auto catalog = Catalog::scan({folder_.string()});
  ASSERT_TRUE(catalog.ok());
  EXPECT_TRUE(catalog->find("fcfs", "bp.scheduler/1").ok());
  EXPECT_THAT(catalog->find("fcsf", "bp.scheduler/1").status().message(),
              HasSubstr("nearest: fcfs"));
  EXPECT_THAT(catalog->find("fcfs", "bp.backend/1").status().message(),
              HasSubstr("is no bp.backend/1"));
}

TEST_F(CatalogTest, FindsStagesAndAsksWhereANameIsAmbiguous) {
  write_plugin("a", "kinds: [bp.sampler/1]\nstages: [{name: top_k}, {name: only_a}]\n");
  write_plugin("b", "kinds: [bp.sampler/1]\nstages: [{name: top_k}]\n");
  const auto catalog = Catalog::scan({folder_.string()});
  ASSERT_TRUE(catalog.ok());
  EXPECT_TRUE(catalog->find_stage("only_a").ok());
  EXPECT_THAT(catalog->find_stage("top_k").status().message(), HasSubstr("a/top_k or b/top_k"));
  ASSERT_TRUE(catalog->find_stage("b/top_k").ok());
  EXPECT_EQ((*catalog->find_stage("b/top_k"))->manifest.id, "b");
  EXPECT_THAT(catalog->find_stage("topk").status().message(), HasSubstr("nearest: top_k"));
}

TEST_F(CatalogTest, KeepsTheFirstOfTwoPluginsWithOneId) {
  write_plugin("mine", "kinds: [bp.scheduler/1]\n");
  const fs::path other = folder_ / "other";
  fs::create_directories(other);
  fs::copy_file(folder_ / "mine.plugin.yaml", other / "mine.plugin.yaml");
  fs::copy_file(folder_ / "mine.so", other / "mine.so");
  const auto catalog = Catalog::scan({folder_.string(), other.string()});
  ASSERT_TRUE(catalog.ok());
  ASSERT_EQ(catalog->entries().size(), 2u);
  EXPECT_TRUE(catalog->entries()[0].usable);
  EXPECT_THAT(catalog->entries()[1].reason, HasSubstr("its id 'mine' is taken by"));
}

TEST(Catalog, NamesAFolderThatCannotBeRead) {
  const auto catalog = Catalog::scan({"/nowhere/at/all"});
  ASSERT_FALSE(catalog.ok());
  EXPECT_THAT(catalog.status().message(), HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace bp::plugin
