# Turns text files into a C++ header of string constants. Each file's constant is named after the file, without its
# ending, other characters than letters and digits as '_'.
string(REPLACE "," ";" FILES "${FILES}")
set(text "#pragma once\n\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.[a-z]+$" "" name ${name})
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${name})
  string(REGEX REPLACE "^([0-9])" "m\\1" name ${name})
  file(READ ${file} content)
  string(APPEND text "inline constexpr std::string_view ${name} = R\"__text__(${content})__text__\";\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
