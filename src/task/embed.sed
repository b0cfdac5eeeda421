# SPDX-License-Identifier: Apache-2.0
# A shell script as a literal of C, without comments of whole lines and the blanks before lines.
/^ *#/d
/^ *$/d
s/^ *//
s/[\\"]/\\&/g
s/.*/"&\\n"/
