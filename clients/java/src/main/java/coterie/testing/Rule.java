package coterie.testing;

import com.fasterxml.jackson.annotation.JsonProperty;

/** What becomes of the next requests of an API, as it was when the broker returned it. */
public record Rule(int rule, String api, @JsonProperty("times_left") int timesLeft, int held) {}
