// Methods that send every element in a few bits.
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

Entry qsgd() {
  return {"qsgd",
          "lossy, unbiased",
          "levels of a bucket's norm, rounded at random",
          "Alistarh et al. 2017",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::uniform; },
          join({{{{"levels", "1 to 32767", "7", "levels on each side of 0"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).levels = static_cast<unsigned>(parse_whole(key, v, 1, 32767));
                  }},
                 kBucket,
                 {{"norm", "max, l2", "max", "of a bucket"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).norm = static_cast<Norm>(parse_word(key, v, {"max", "l2"}));
                  }},
                 kRounding,
                 kWay,
                 with_default(kFeedback, "false"),
                 kDecay,
                 kForce},
                kPlaces})};
}

Entry terngrad() {
  return {"terngrad",
          "lossy, unbiased unless clipped",
          "-N, 0 and N at random",
          "Wen et al. 2017",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::ternary; },
          join({{with_default(kBucket, "0"),
                 {{"clip", "0, or 1 or more", "2.5",
                   "root mean squares at which magnitudes are clipped; 0: none"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).clip_deviations = static_cast<float>(parse_number(key, v, 0, 1e6));
                  }},
                 kWay,
                 with_default(kFeedback, "false"),
                 kDecay},
                kPlaces})};
}

Entry natural() {
  return {"natural",
          "lossy, unbiased",
          "powers of two, rounded at random",
          "Horvath et al. 2019",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::natural; },
          join({{kWay, with_default(kFeedback, "false"), kDecay}, kPlaces})};
}

void prepare_signs(Recipe& recipe, Norm norm) {
  quantiser(recipe).kind = QuantiserKind::sign;
  quantiser(recipe).norm = norm;
}

Entry sign() {
  return {"sign",
          "lossy, biased, without feedback",
          "signs, of which the majority counts, times the mean of the ranks' mean magnitudes",
          "Bernstein et al. 2018",
          [](Recipe& r) {
            prepare_signs(r, Norm::l1);
            r.majority = true;
            r.force = true;  // as published
          },
          join({{with_default(kBucket, "0"), with_default(kWay, "two_shot")}, kPlaces})};
}

Entry efsign() {
  return {"efsign",
          "lossy, biased, with error feedback",
          "signs times the mean magnitude",
          "Karimireddy et al. 2019",
          [](Recipe& r) { prepare_signs(r, Norm::l1); },
          join({{with_default(kBucket, "0")}, kErrors, kPlaces})};
}

Entry onebit() {
  return {"onebit",
          "lossy, biased, with error feedback on both sides",
          "signs times the mean magnitude, both ways",
          "Seide et al. 2014; Zhong et al. 2021 (BytePS-Compress)",
          [](Recipe& r) {
            prepare_signs(r, Norm::l1);
            r.way = Way::two_shot;
          },
          join({{with_default(kBucket, "0"),
                 {{"server_feedback", "true, false", "true",
                   "owners keep what the means that they send lack"},
                  [](Recipe& r, Text key, Text v) { r.server_feedback = parse_flag(key, v); }}},
                kErrors,
                kPlaces})};
}

Entry qgz() {
  return {"qgz",
          "lossy, biased by a rounding",
          "integers of 4 or 8 bits in blocks, both ways",
          "Wang et al. 2023 (ZeRO++)",
          [](Recipe& r) {
            quantiser(r).rounding = Rounding::nearest;
            r.way = Way::two_shot;
            r.force = true;  // as published
          },
          join({{{{"bits", "2 to 8", "4", "of an integer"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).levels = (1u << (parse_whole(key, v, 2, 8) - 1)) - 1;
                  }},
                 kBucket,
                 with_default(kFeedback, "false"),
                 kDecay},
                kPlaces})};
}

Entry cast() {
  return {"cast",
          "lossy, biased by a rounding",
          "narrower floats",
          "IEEE 754; Micikevicius et al. 2022",
          [](Recipe& r) { r.force = true; },  // a cast is no choice of what to leave out
          join({{with_default(kValues, "bf16"), kBucket, kWay, with_default(kFeedback, "false"),
                 kDecay},
                kPlaces})};
}

}  // namespace

std::vector<Entry> quantisers() {
  return {qsgd(), terngrad(), natural(), sign(), efsign(), onebit(), qgz(), cast()};
}

}  // namespace gradwire::lossy
