"""The uninflected words of the pocket corpus: times, weather, professions, names, and the like."""

# The German predicate "ist Lehrer" has no article, and the noun has the gender of the person.
PROFESSIONS = """
    teacher Lehrer Lehrerin, doctor Arzt Ärztin, baker Bäcker Bäckerin, gardener Gärtner Gärtnerin,
    painter Maler Malerin, singer Sänger Sängerin, cook Koch Köchin, pilot Pilot Pilotin,
    student Student Studentin
"""
INSTRUMENTS = """
    the_piano Klavier, the_guitar Gitarre, the_violin Geige, chess Schach, football Fußball,
    cards Karten
"""
LANGUAGES = """
    English Englisch, German Deutsch, French Französisch, Spanish Spanisch, Italian Italienisch
"""
VEHICLES = """
    by_train mit_dem_Zug, by_car mit_dem_Auto, by_bus mit_dem_Bus, by_bicycle mit_dem_Fahrrad
"""

DAYS = """
    Monday Montag, Tuesday Dienstag, Wednesday Mittwoch, Thursday Donnerstag, Friday Freitag,
    Saturday Samstag, Sunday Sonntag
"""
MONTHS = """
    January Januar, March März, April April, May Mai, July Juli, August August, October Oktober,
    December Dezember
"""
DAY_PARTS = "morning morgen, afternoon nachmittag, evening abend"
# The times of each tense; "denied" has those of a negated clause in the present.
TIME_TABLES = {
    "present": """
        every_day jeden_Tag, every_morning jeden_Morgen, every_evening jeden_Abend,
        at_the_weekend am_Wochenende, in_the_morning am_Morgen, in_the_evening am_Abend
    """,
    "past": """
        yesterday gestern, yesterday gestern, last_week letzte_Woche, this_morning heute_Morgen,
        yesterday_evening gestern_Abend, today heute
    """,
    "future": """
        tomorrow morgen, tomorrow morgen, next_week nächste_Woche, this_evening heute_Abend,
        today heute, at_the_weekend am_Wochenende
    """,
    "denied": "today heute, at_the_weekend am_Wochenende",
}
# Longer periods, for the verbs in LASTING.
LONG_TIME_TABLES = {
    "present": """
        every_week jede_Woche, every_year jedes_Jahr, in_summer im_Sommer, in_winter im_Winter
    """,
    "past": """
        last_year letztes_Jahr, last_summer letzten_Sommer, last_winter letzten_Winter
    """,
    "future": """
        next_year nächstes_Jahr, next_summer nächsten_Sommer, next_winter nächsten_Winter
    """,
    "denied": "in_summer im_Sommer, in_winter im_Winter",
}
# Verbs that can take a long time.
LASTING = frozenset(
    """
    arbeiten singen kaufen verkaufen schreiben lesen suchen finden verlieren sehen besuchen treffen
    einladen zeichnen helfen erklären empfehlen schicken leihen denken träumen reden fahren fliegen
    lernen spielen erinnern tanzen bleiben werden reparieren
    """.split()
)
# Verbs for what one may do with a companion.
SOCIABLE = frozenset(
    """
    arbeiten singen tanzen kochen einkaufen fernsehen gehen fliegen besuchen lernen spielen
    """.split()
)
SPANS = "days Tagen, weeks Wochen, months Monaten, years Jahren"
OFTEN = "often oft, always immer, sometimes manchmal, usually meistens, rarely selten"
ATTITUDES = """
    unfortunately, leider; perhaps vielleicht; fortunately, zum_Glück; of_course, natürlich
"""
WEATHER = {
    "present": """
        it_is_raining es_regnet, it_is_snowing es_schneit, the_sun_is_shining die_Sonne_scheint,
        it_is_cold es_kalt_ist, it_is_warm es_warm_ist,
        the_weather_is_bad das_Wetter_schlecht_ist
    """,
    "past": """
        it_was_raining es_geregnet_hat, it_was_cold es_kalt_war, it_was_warm es_warm_war,
        the_weather_was_bad das_Wetter_schlecht_war, it_was_late es_spät_war
    """,
}

MEN = """
    Paul Peter Thomas Martin Felix Lukas Jonas Tobias Stefan Daniel Simon David Oliver Robert
    Richard Karl Otto Emil Anton Jakob Leo Moritz Oskar Theo Walter Werner Georg Konrad Kevin Tom
    Ben Erik Sven Nils Lars Omar Ivan Marco
""".split()
WOMEN = """
    Anna Maria Julia Laura Sarah Lena Lisa Emma Clara Sophie Marie Eva Ida Nora Paula Helga Ingrid
    Monika Petra Sabine Susanne Karin Birgit Ursula Greta Frieda Johanna Hannah Katharina Nina Olga
    Rita Silke Tanja Ulrike Vera Elena
""".split()
SURNAMES = """
    Schmidt Weber Wagner Becker Schulz Hoffmann Keller Braun Krause Zimmermann Lehmann Huber Kaiser
    Lang Winkler Vogel Roth Franke Albrecht Schuster Sommer Winter Brandt Haas Graf Dietrich Kuhn
    Pohl Engel Horn
""".split()
CITIES = """
    Berlin Hamburg Dresden Leipzig Bremen Frankfurt Stuttgart Bonn Potsdam Paris London Madrid Oslo
    Amsterdam Dublin Salzburg Graz Bern Basel Kiel Rostock Erfurt Kassel Mainz Heidelberg Freiburg
    Stockholm Boston Chicago Lyon
""".split()
TRANSLATED_CITIES = """
    Munich München, Cologne Köln, Vienna Wien, Rome Rom, Prague Prag, Zurich Zürich,
    Warsaw Warschau
"""

# Parts of invented names. They combine to enough names that each test split contains new ones.
NAME_STARTS = """
    Ba Be Bi Da De Do Fa Fe Ga Ha Ja Jo Ka Ke La Le Li Lo Ma Me Mi Na No Pa Ra Re Ri Ro Sa Se Ta Te
    Ti Va Vi
""".split()
NAME_MIDDLES = """
    ba be bi da de di do ga ka ke ki la le li lo ma me mi na ne ni no ra re ri ro sa se si ta te ti
    va ve vi
""".split()
NAME_ENDS = {"m": "ko lo mo no ro to ril min".split(), "f": "ka la ma na ra ta lia nia".split()}
TOWN_STARTS = """
    Alten Neuen Ober Unter Stein Wald Linden Rosen Birken Eichen Buchen Falken Hirsch Grün Schön
    Sonnen
""".split()
TOWN_ENDS = "berg burg dorf feld hausen heim bach tal see au".split()
FAMILY_STARTS = """
    Berg Stein Wald Feld Linden Rosen Bach Eichen Birken Neu Alt Ober Unter Winter Sommer Holz
    Eisen
""".split()
FAMILY_ENDS = "mann meier huber bauer müller hofer berger".split()
