# backplane_add_test(NAME SOURCES ... [LIBRARIES ...] [LABELS ...])
# One GoogleTest executable; each of its tests is a CTest test. Tests find the source tree, the
# build tree and shared test data through environment variables.
include(GoogleTest)
find_package(GTest REQUIRED)

function(backplane_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE bp_flags ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  set(env "BACKPLANE_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "BACKPLANE_BUILD_DIR=${CMAKE_BINARY_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}."
    PROPERTIES ENVIRONMENT "${env}" LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
