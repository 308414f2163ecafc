# waybill_component(NAME n RANK r [NO_THREADS] [NEEDS library] [DEPS …] [LINKS …] [HEADERS …] [SOURCES …] [TESTS …] [TEST_DEPS …]
#                   [TEST_LINKS …])
#
# Declares one component: a static library waybill_<n>, and a test binary <n>_test that links nothing but the
# component, its dependencies and the named test helpers. Ranks point down only, never sideways: a dependency on a
# component of the same or a higher rank, or on one not declared yet, stops the configuration.
# NO_THREADS: its tests have one thread each.
# HEADERS are public ones below include/. SOURCES are listed, never globbed; tools/tidy.py holds the tree to it.
# With NEEDS, it is built only if that library is there (WaybillOptional.cmake), and whoever depends on it does without
# it; WAYBILL_HAS_<library> is defined for those who depend on it if it is.
function(waybill_component)
  cmake_parse_arguments(C "NO_THREADS" "NAME;RANK;NEEDS" "DEPS;LINKS;PUBLIC_LINKS;HEADERS;SOURCES;TESTS;TEST_DEPS;TEST_LINKS" ${ARGN})
  if(C_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "waybill_component(${C_NAME}): what is '${C_UNPARSED_ARGUMENTS}'?")
  endif()
  foreach(dep IN LISTS C_DEPS)
    get_property(dep_rank GLOBAL PROPERTY waybill_rank_${dep})
    if("${dep_rank}" STREQUAL "" OR NOT dep_rank LESS C_RANK)
      message(FATAL_ERROR "${C_NAME} (rank ${C_RANK}) may not depend on ${dep} (rank '${dep_rank}')")
    endif()
  endforeach()
  set_property(GLOBAL PROPERTY waybill_rank_${C_NAME} ${C_RANK})
  # For waybill_part().
  set_property(GLOBAL PROPERTY waybill_headers_${C_NAME} ${C_HEADERS})
  set_property(GLOBAL PROPERTY waybill_links_${C_NAME} ${C_LINKS} ${C_PUBLIC_LINKS})

  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(JOIN "," deps ${C_DEPS})
  string(JOIN "," headers ${C_HEADERS})
  set(files ${C_SOURCES} ${C_TESTS})
  string(JOIN "," sources ${files})
  set_property(GLOBAL APPEND PROPERTY waybill_layers "${C_NAME}|${C_RANK}|${folder}|${deps}|${headers}|${sources}")

  if(C_NEEDS AND NOT WAYBILL_HAS_${C_NEEDS})
    return()
  endif()
  set(target waybill_${C_NAME})
  set(scope PUBLIC)
  if(C_SOURCES)
    add_library(${target} STATIC ${C_SOURCES})
  else()  # Headers alone.
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  if(C_NEEDS)
    target_compile_definitions(${target} INTERFACE WAYBILL_HAS_${C_NEEDS})
  endif()
  add_library(waybill::${C_NAME} ALIAS ${target})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set(dep_targets)
  foreach(dep IN LISTS C_DEPS)
    if(TARGET waybill_${dep})
      list(APPEND dep_targets waybill_${dep})
    endif()
  endforeach()
  target_link_libraries(${target} ${scope} waybill_flags ${dep_targets} ${C_PUBLIC_LINKS})
  if(C_LINKS)
    target_link_libraries(${target} PRIVATE ${C_LINKS})
  endif()
  if(C_HEADERS)
    list(TRANSFORM C_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/ OUTPUT_VARIABLE header_paths)
    target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${header_paths})
  endif()

  if(C_TESTS AND WAYBILL_TESTS AND NOT (C_NO_THREADS AND WAYBILL_THREADS_ONLY))
    string(REPLACE "/" "_" test_name ${C_NAME}_test)
    add_executable(${test_name} ${C_TESTS})
    target_compile_options(${test_name} PRIVATE ${WAYBILL_TEST_OPTIONS})
    list(TRANSFORM C_TEST_DEPS PREPEND waybill_ OUTPUT_VARIABLE helper_targets)
    target_link_libraries(${test_name} PRIVATE ${target} ${helper_targets} ${C_TEST_LINKS} GTest::gtest_main GTest::gmock)
    waybill_discover_tests(${test_name})
  endif()
endfunction()

# Instrumented code takes its time.
function(waybill_stretch name)
  if(WAYBILL_SANITIZE)
    math(EXPR stretched "3 * ${${name}}")
    set(${name} ${stretched} PARENT_SCOPE)
  endif()
endfunction()

# Every test case of a binary becomes a test of ctest's, with a time limit.
function(waybill_discover_tests test)
  cmake_parse_arguments(T "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  waybill_stretch(T_TIMEOUT)
  gtest_discover_tests(${test} TEST_PREFIX "${test}." DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()

# A test binary that starts servers is one test of ctest's: so a server is started once, not once for each case.
function(waybill_server_test test)
  cmake_parse_arguments(T "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  waybill_stretch(T_TIMEOUT)
  add_test(NAME ${test} COMMAND ${test} --gtest_brief=1)
  set_tests_properties(${test} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()

# Written at the end of the configuration, read by tools/tidy.py.
function(waybill_write_layers path)
  get_property(layers GLOBAL PROPERTY waybill_layers)
  string(JOIN "\n" text ${layers})
  file(WRITE ${path} "${text}\n")
endfunction()

# waybill_embed(TARGET t NAMESPACE ns HEADER h FILES a.sql b.css …): the files' texts as constants `a`, `b_css` in h.
function(waybill_embed)
  cmake_parse_arguments(E "" "TARGET;NAMESPACE;HEADER" "FILES" ${ARGN})
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/${E_HEADER})
  set(inputs ${E_FILES})
  list(TRANSFORM inputs PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  string(JOIN "," joined ${inputs})
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${header} -DNAMESPACE=${E_NAMESPACE} -DFILES=${joined}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${inputs} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${E_TARGET} PRIVATE ${header})
  target_include_directories(${E_TARGET} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
