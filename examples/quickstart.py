"""Two lines in one cloud of points: what a musician hears (Cohen, 1980)."""

from wmlr import MixedLinearRegression, plots
from wmlr.datasets import load_tone

tone = load_tone()
fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)

print(fit.summary(tone.data, tone.target))
print("a trial tuned to 2.4 at a stretch of 2.5:", fit.responsibilities([[2.5]], [2.4]).round(3))

picture = plots.fitted_lines(fit, tone.data, tone.target, xlabel="stretch of the overtones", ylabel="tuned ratio")
plots.save(picture, "tone.png")
