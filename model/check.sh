#!/usr/bin/env bash
# The Promela models: each protocol as it is must pass, and every planted bug must be found.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bugs=14

# verify NAME DEFINES ARGUMENTS: builds and runs a verifier, prints what it says.
verify() {
  local folder="$work/$1"
  mkdir -p "$folder"
  (cd "$folder" && cp "$OLDPWD/ring.pml" . && spin $2 -a ring.pml > spin.log \
    && gcc -w -O2 -DVECTORSZ=2048 $4 -o pan pan.c && ./pan -m2000000 $3)
}

sizes=("-DCAPACITY=2 -DSENDS0=3 -DSENDS1=1" "-DCAPACITY=1 -DSENDS0=3 -DSENDS1=1" "-DCAPACITY=2 -DSENDS0=2 -DSENDS1=2")

for at in "${!sizes[@]}"; do
  for deaths in 0 1; do
    said=$(verify "safe-$at-$deaths" "${sizes[$at]} -DDEATHS=$deaths" "" "-DSAFETY -DNOCLAIM -DCOLLAPSE")
    grep -q 'errors: 0' <<< "$said" || { echo "$said"; exit 1; }
    echo "correct  ${sizes[$at]} -DDEATHS=$deaths: $(grep -o '[0-9.e+]* states, stored' <<< "$said")"
  done
done
said=$(verify live "-DSENDS0=2 -DSENDS1=1 -DDEATHS=1" "-a -f" "-DNFAIR=3 -DCOLLAPSE")
grep -q 'errors: 0' <<< "$said" || { echo "$said"; exit 1; }
echo "correct  live under weak fairness, with a death: $(grep -o '[0-9.e+]* states, stored' <<< "$said")"

found=0
for bug in $(seq 1 $bugs); do
  deaths=0
  [ "$bug" -eq 14 ] && deaths=1
  is_found=no
  for at in "${!sizes[@]}"; do
    said=$(verify "bug-$bug-$at" "-DBUG=$bug ${sizes[$at]} -DDEATHS=$deaths" "" "-DSAFETY -DNOCLAIM -DCOLLAPSE")
    grep -q 'errors: 0' <<< "$said" || { is_found=yes; break; }
  done
  [ "$is_found" = yes ] || { echo "seeded   bug $bug was NOT found"; exit 1; }
  found=$((found + 1))
done
echo "seeded   $found of $bugs bugs found"

# check NAME BUGS: a model of one size, whose states without a way out are errors, too.
check() {
  local name="$1" bugs="$2" said
  for bug in $(seq 0 "$bugs"); do
    folder="$work/$name-$bug"
    mkdir -p "$folder"
    said=$(cd "$folder" && cp "$OLDPWD/$name.pml" . && spin -DBUG="$bug" -a "$name.pml" > spin.log \
      && gcc -w -O2 -DSAFETY -DNOCLAIM -DCOLLAPSE -o pan pan.c && ./pan -m1000000)
    if [ "$bug" -eq 0 ]; then
      grep -q 'errors: 0' <<< "$said" || { echo "$said"; exit 1; }
      echo "correct  $name: $(grep -o '[0-9.e+]* states, stored' <<< "$said")"
    elif grep -q 'errors: 0' <<< "$said"; then
      echo "seeded   bug $bug of $name was NOT found"
      exit 1
    fi
  done
  echo "seeded   $bugs of $bugs bugs of $name found"
}

check hand_over 8
check shared_helper 7
