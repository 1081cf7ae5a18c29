"""The inflected words of the pocket corpus as plain tables, which the module `lexicon` reads.

Nouns: `English gender German plural`, separated by commas. A slash separates an irregular English
plural (`child/children`) and the weak singular of the German n-declension (`Student/Studenten`:
*den Studenten*). An underscore stands for a blank.

Verbs, one a line: `base; past; German; participle; nouns; places; English preposition; German
preposition; case`. In the German field, `auf+stehen` is a separable verb, `lesen lies` is a verb
whose stem changes after *du* and *er*, and `sich` marks a reflexive verb. A `*` before the
participle marks a perfect with *sein*. `nouns` are the kinds of nouns that the verb takes, and
`places` is the group of places where the action happens.
"""

NOUN_TABLES = {
    "person": """
        teacher m Lehrer Lehrer, doctor m Arzt Ärzte, baker m Bäcker Bäcker,
        student m Student/Studenten Studenten, farmer m Bauer/Bauern Bauern,
        gardener m Gärtner Gärtner, painter m Maler Maler, singer m Sänger Sänger,
        cook m Koch Köche, pilot m Pilot/Piloten Piloten, waiter m Kellner Kellner,
        neighbour m Nachbar/Nachbarn Nachbarn, man/men m Mann Männer, boy m Junge/Jungen Jungen,
        guest m Gast Gäste, tourist m Tourist/Touristen Touristen, king m König Könige,
        queen f Königin Königinnen, woman/women f Frau Frauen,
        actress f Schauspielerin Schauspielerinnen, nurse f Krankenschwester Krankenschwestern,
        child/children n Kind Kinder, girl n Mädchen Mädchen
    """,
    "kin": """
        brother m Bruder Brüder, father m Vater Väter, uncle m Onkel Onkel, son m Sohn Söhne,
        friend m Freund Freunde, grandfather m Großvater Großväter, mother f Mutter Mütter,
        sister f Schwester Schwestern, aunt f Tante Tanten, daughter f Tochter Töchter,
        grandmother f Großmutter Großmütter
    """,
    "relatives": """
        brother m Bruder Brüder, uncle m Onkel Onkel, son m Sohn Söhne, friend m Freund Freunde,
        sister f Schwester Schwestern, aunt f Tante Tanten, daughter f Tochter Töchter
    """,
    "young": """
        child/children n Kind Kinder, baby n Baby Babys, girl n Mädchen Mädchen,
        boy m Junge/Jungen Jungen
    """,
    "animal": """
        dog m Hund Hunde, cat f Katze Katzen, horse n Pferd Pferde, cow f Kuh Kühe,
        goose/geese f Gans Gänse, bird m Vogel Vögel, duck f Ente Enten,
        rabbit n Kaninchen Kaninchen, goat f Ziege Ziegen, donkey m Esel Esel
    """,
    "text": """
        book n Buch Bücher, letter m Brief Briefe, story f Geschichte Geschichten,
        novel m Roman Romane, message f Nachricht Nachrichten, poem n Gedicht Gedichte
    """,
    "press": "newspaper f Zeitung Zeitungen, magazine f Zeitschrift Zeitschriften",
    "page": "book n Buch Bücher, novel m Roman Romane",
    "written": """
        letter m Brief Briefe, story f Geschichte Geschichten, message f Nachricht Nachrichten,
        poem n Gedicht Gedichte, book n Buch Bücher
    """,
    "told": "story f Geschichte Geschichten, poem n Gedicht Gedichte",
    "food": """
        apple m Apfel Äpfel, pear f Birne Birnen, cake m Kuchen Kuchen, egg n Ei Eier,
        potato f Kartoffel Kartoffeln, tomato f Tomate Tomaten, banana f Banane Bananen,
        roll n Brötchen Brötchen, biscuit m Keks Kekse, sausage f Wurst Würste
    """,
    "baked": "cake m Kuchen Kuchen, roll n Brötchen Brötchen, biscuit m Keks Kekse",
    "thing": """
        lamp f Lampe Lampen, chair m Stuhl Stühle, umbrella m Regenschirm Regenschirme,
        key m Schlüssel Schlüssel, suitcase m Koffer Koffer, picture n Bild Bilder,
        ball m Ball Bälle, camera f Kamera Kameras, bag f Tasche Taschen,
        bicycle n Fahrrad Fahrräder, flower f Blume Blumen, mirror m Spiegel Spiegel,
        radio n Radio Radios
    """,
    "present": """
        ball m Ball Bälle, flower f Blume Blumen, camera f Kamera Kameras, picture n Bild Bilder,
        book n Buch Bücher, apple m Apfel Äpfel, key m Schlüssel Schlüssel, letter m Brief Briefe,
        umbrella m Regenschirm Regenschirme
    """,
    "post": """
        letter m Brief Briefe, message f Nachricht Nachrichten, picture n Bild Bilder,
        book n Buch Bücher
    """,
    "load": """
        suitcase m Koffer Koffer, bag f Tasche Taschen, box f Kiste Kisten, chair m Stuhl Stühle
    """,
    "device": "lamp f Lampe Lampen, radio n Radio Radios, computer m Computer Computer",
    "vehicle": """
        car n Auto Autos, bicycle n Fahrrad Fahrräder, boat n Boot Boote,
        motorbike n Motorrad Motorräder
    """,
    "transport": "train m Zug Züge, bus m Bus Busse, ship n Schiff Schiffe",
    "clothing": """
        coat m Mantel Mäntel, shirt n Hemd Hemden, jacket f Jacke Jacken,
        jumper m Pullover Pullover, hat m Hut Hüte, scarf/scarves m Schal Schals, cap f Mütze Mützen
    """,
    "garment": """
        coat m Mantel Mäntel, shirt n Hemd Hemden, jacket f Jacke Jacken, jumper m Pullover Pullover
    """,
    "opening": "window n Fenster Fenster, door f Tür Türen",
    "room": """
        kitchen f Küche Küchen, living_room n Wohnzimmer Wohnzimmer,
        bedroom n Schlafzimmer Schlafzimmer, office n Büro Büros
    """,
    "sight": """
        museum n Museum Museen, church f Kirche Kirchen, town f Stadt Städte, village n Dorf Dörfer,
        library f Bibliothek Bibliotheken
    """,
    "flat": """
        book n Buch Bücher, letter m Brief Briefe, newspaper f Zeitung Zeitungen,
        key m Schlüssel Schlüssel
    """,
    "upright": """
        bottle f Flasche Flaschen, cup f Tasse Tassen, lamp f Lampe Lampen, glass n Glas Gläser
    """,
    "furniture": """
        table m Tisch Tische, bed n Bett Betten, cupboard m Schrank Schränke, chair m Stuhl Stühle,
        sofa n Sofa Sofas
    """,
    "event": "film m Film Filme, concert n Konzert Konzerte, course m Kurs Kurse",
    "shop": """
        shop m Laden Läden, bakery f Bäckerei Bäckereien, museum n Museum Museen,
        library f Bibliothek Bibliotheken
    """,
}

MASS_TABLES = {
    "drink": "coffee m Kaffee -, tea m Tee -, milk f Milch -, water n Wasser -, juice m Saft -",
    "fodder": "grass n Gras -, bread n Brot -",
}

# One place a line: noun; preposition of place; of direction; the German prepositions of both.
PLACE_TABLES = {
    "home": """
        garden m Garten Gärten; in; into; in; in
        kitchen f Küche Küchen; in; into; in; in
        living_room n Wohnzimmer Wohnzimmer; in; into; in; in
        house n Haus Häuser; in; into; in; in
        hotel n Hotel Hotels; in; into; in; in
    """,
    "town": """
        park m Park Parks; in; to; in; in
        museum n Museum Museen; in; to; in; in
        library f Bibliothek Bibliotheken; in; to; in; in
        cinema n Kino Kinos; in; to; in; in
        theatre n Theater Theater; in; to; in; in
        church f Kirche Kirchen; in; into; in; in
        office n Büro Büros; in; to; in; in
        hospital n Krankenhaus Krankenhäuser; in; to; in; in
        forest m Wald Wälder; in; into; in; in
        village n Dorf Dörfer; in; to; in; in
    """,
    "meal": """
        restaurant n Restaurant Restaurants; in; to; in; in
        café n Café Cafés; in; to; in; in
        kitchen f Küche Küchen; in; into; in; in
        garden m Garten Gärten; in; into; in; in
    """,
    "shopping": """
        market m Markt Märkte; at; to; auf; auf
        shop m Laden Läden; in; into; in; in
        supermarket m Supermarkt Supermärkte; in; to; in; in
        bakery f Bäckerei Bäckereien; in; to; in; in
    """,
    "way": """
        station m Bahnhof Bahnhöfe; at; to; an; zu
        airport m Flughafen Flughäfen; at; to; an; zu
        harbour m Hafen Häfen; at; to; an; zu
        lake m See Seen; by; to; an; zu
        river m Fluss Flüsse; by; to; an; zu
        bus_stop f Bushaltestelle Bushaltestellen; at; to; an; zu
        bridge f Brücke Brücken; on; to; auf; zu
    """,
}

# English, German, and the German stem before an ending where it differs.
ADJECTIVE_TABLE = """
    old alt, young jung, new neu, big groß, small klein, beautiful schön, cheap billig,
    expensive teuer teur, heavy schwer, red rot, blue blau, green grün, yellow gelb, black schwarz,
    white weiß, brown braun, long lang, thick dick, short kurz, interesting interessant,
    boring langweilig, fresh frisch, sweet süß, good gut, warm warm, cold kalt, fast schnell,
    quiet ruhig, modern modern, dark dunkel dunkl, friendly freundlich, clever klug, famous berühmt,
    rich reich, polite höflich, curious neugierig, brave mutig, strong stark, tall groß,
    tired müde müd, sad traurig, happy glücklich, hungry hungrig, thirsty durstig, ill krank,
    angry wütend, late spät, oldest ältest, biggest größt, most_beautiful schönst,
    most_famous berühmtest, smallest kleinst
"""

THING_ADJECTIVES = (
    "new old big small beautiful cheap expensive heavy red blue green yellow black white"
)
TEXT_ADJECTIVES = "new old long short interesting boring beautiful"
PLACE_ADJECTIVES = "old new big small beautiful quiet modern"
# The adjectives of each kind of noun and each group of places.
ADJECTIVE_TABLES = {
    "person": """
        old young friendly clever famous rich polite curious brave strong tired sad happy hungry
    """,
    "kin": "old young friendly clever",
    "relatives": "old young friendly clever",
    "young": "friendly clever polite curious brave tired sad happy hungry small",
    "animal": "big small old young black white brown hungry",
    "text": TEXT_ADJECTIVES,
    "press": "new old interesting boring",
    "page": "new old thick interesting boring",
    "written": TEXT_ADJECTIVES,
    "told": TEXT_ADJECTIVES,
    "food": "fresh big small good cheap",
    "baked": "fresh big small good sweet",
    "thing": THING_ADJECTIVES,
    "present": "new beautiful big small old",
    "post": "long short new beautiful interesting old",
    "load": "heavy new old big small black brown",
    "device": "new old big small expensive",
    "vehicle": "new old red blue green fast expensive cheap small",
    "transport": "new old fast modern",
    "clothing": "new old red blue green yellow black white warm expensive cheap",
    "garment": "new old red blue green yellow black white warm expensive cheap",
    "opening": "big small old new",
    "room": "big small dark",
    "sight": "old new big small beautiful famous modern interesting",
    "flat": "new old",
    "upright": "new old big small red blue green",
    "furniture": "new old big small brown black white",
    "event": "new long short interesting boring",
    "shop": "new old small big",
    "drink": "warm cold good fresh",
    "fodder": "fresh",
    "home": PLACE_ADJECTIVES,
    "town": PLACE_ADJECTIVES,
    "meal": PLACE_ADJECTIVES,
    "shopping": PLACE_ADJECTIVES,
    "way": "old new big small beautiful",
    "moods": "tired sad happy hungry thirsty ill angry",
    "best": "oldest biggest most_beautiful most_famous smallest",
}

# English comparison, its conjunction, and the same in German.
COMPARATIVES = {
    "person": """
        older than älter als, younger than jünger als, taller than größer als,
        richer than reicher als, stronger than stärker als, friendlier than freundlicher als,
        cleverer than klüger als, more_polite than höflicher als, as_old as so_alt wie,
        as_tall as so_groß wie, as_strong as so_stark wie, as_clever as so_klug wie
    """,
    "thing": """
        bigger than größer als, smaller than kleiner als, heavier than schwerer als,
        cheaper than billiger als, more_expensive than teurer als, more_beautiful than schöner als,
        as_big as so_groß wie, as_heavy as so_schwer wie, as_expensive as so_teuer wie
    """,
}

FRAME_TABLES = {
    "alone": """
        sleep; slept; schlafen schläf; geschlafen;; home
        work; worked; arbeiten; gearbeitet;; town
        sing; sang; singen; gesungen;; town
        dance; danced; tanzen; getanzt;; town
        wait; waited; warten; gewartet;; way
        cook; cooked; kochen; gekocht;; meal
        rest; rested; sich aus+ruhen; ausgeruht;; home
        get up; got up; auf+stehen; *aufgestanden;;
        wake up; woke up; auf+wachen; *aufgewacht;;
        fall asleep; fell asleep; ein+schlafen schläf; *eingeschlafen;;
        come back; came back; zurück+kommen; *zurückgekommen;;
        leave; left; ab+reisen; *abgereist;;
        go shopping; went shopping; ein+kaufen; eingekauft;; shopping
        watch television; watched television; fern+sehen sieh; ferngesehen;;
    """,
    "object": """
        read; read; lesen lies; gelesen; text press; home
        write; wrote; schreiben; geschrieben; written; town
        buy; bought; kaufen; gekauft; thing food clothing vehicle; shopping
        sell; sold; verkaufen; verkauft; thing food clothing; shopping
        eat; ate; essen iss; gegessen; food; meal
        drink; drank; trinken; getrunken; drink; meal
        bake; baked; backen; gebacken; baked;
        wash; washed; waschen wäsch; gewaschen; clothing vehicle; home
        repair; repaired; reparieren; repariert; vehicle device; home
        look for; looked for; suchen; gesucht; thing animal clothing; town
        find; found; finden; gefunden; thing animal text; town
        forget; forgot; vergessen vergiss; vergessen; thing press clothing;
        lose; lost; verlieren; verloren; thing clothing; town
        see; saw; sehen sieh; gesehen; animal human vehicle; town
        visit; visited; besuchen; besucht; human sight;
        know; knew; kennen; gekannt; human sight;
        love; loved; lieben; geliebt; human animal;
        meet; met; treffen triff; getroffen; human; town
        ask; asked; fragen; gefragt; human;
        invite; invited; ein+laden läd; eingeladen; human;
        call; called; an+rufen; angerufen; human;
        fetch; fetched; ab+holen; abgeholt; human; way
        feed; fed; füttern; gefüttert; animal; home
        draw; drew; zeichnen; gezeichnet; animal furniture; town
        open; opened; auf+machen; aufgemacht; opening;
        close; closed; zu+machen; zugemacht; opening;
        switch on; switched on; ein+schalten; eingeschaltet; device;
        switch off; switched off; aus+schalten; ausgeschaltet; device;
        tidy up; tidied up; auf+räumen; aufgeräumt; room;
        put on; put on; an+ziehen; angezogen; garment;
        take off; took off; aus+ziehen; ausgezogen; garment;
        throw away; threw away; weg+werfen wirf; weggeworfen; text press food clothing;
        bring along; brought along; mit+bringen; mitgebracht; thing food drink;
        carry; carried; tragen träg; getragen; load;
        need; needed; brauchen; gebraucht; thing clothing vehicle;
    """,
    "dative": """
        help; helped; helfen hilf; geholfen; human; home
        thank; thanked; danken; gedankt; human;
        answer; answered; antworten; geantwortet; human;
        follow; followed; folgen; *gefolgt; human;
        listen to; listened to; zu+hören; zugehört; human;
        trust; trusted; vertrauen; vertraut; human;
        congratulate; congratulated; gratulieren; gratuliert; human;
    """,
    "giving": """
        give; gave; geben gib; gegeben; present;
        show; showed; zeigen; gezeigt; thing text animal;
        send; sent; schicken; geschickt; post;
        lend; lent; leihen; geliehen; thing vehicle clothing;
        tell; told; erzählen; erzählt; told;
        explain; explained; erklären; erklärt; text;; to
        recommend; recommended; empfehlen empfiehl; empfohlen; page sight;; to
        read; read; vor+lesen lies; vorgelesen; text;; to
        describe; described; beschreiben; beschrieben; vehicle sight animal;; to
    """,
    "about": """
        wait for; waited for; warten; gewartet; human transport; way;; auf; acc
        think of; thought of; denken; gedacht; human;;; an; acc
        dream of; dreamed of; träumen; geträumt; human animal vehicle;;; von; dat
        talk to; talked to; sprechen sprich; gesprochen; human; town;; mit; dat
        talk about; talked about; reden; geredet; text vehicle sight; meal;; über; acc
        laugh at; laughed at; lachen; gelacht; human told;;; über; acc
        play with; played with; spielen; gespielt; young animal; home;; mit; dat
        look after; looked after; auf+passen; aufgepasst; young animal;;; auf; acc
        remember; remembered; sich erinnern; erinnert; human sight;;; an; acc
        apologise to; apologised to; sich entschuldigen; entschuldigt; human;;; bei; dat
    """,
    "motion": """
        go; went; gehen; *gegangen;; any
        run; ran; laufen läuf; *gelaufen;; way
    """,
    "journey": """
        travel; travelled; fahren fähr; *gefahren;;
        fly; flew; fliegen; *geflogen;;
    """,
    "position": """
        lie; lay; liegen; gelegen; flat
        stand; stood; stehen; gestanden; upright
    """,
    "placing": """
        put; put; legen; gelegt; flat
        put; put; stellen; gestellt; upright
    """,
    "beast": """
        sleep; slept; schlafen schläf; geschlafen
        lie; lay; liegen; gelegen
        wait; waited; warten; gewartet
    """,
    "schedule": """
        arrive; arrived; an+kommen; *angekommen; transport
        depart; departed; ab+fahren fähr; *abgefahren; transport
        begin; began; an+fangen fäng; angefangen; event
        end; ended; enden; geendet; event
        close; closed; schließen; geschlossen; shop
    """,
    "single": """
        be; was; sein; *gewesen
        have; had; haben ha; gehabt
        live; lived; wohnen; gewohnt
        come; came; kommen; *gekommen
        stay; stayed; bleiben; *geblieben
        play; played; spielen; gespielt
        learn; learned; lernen; gelernt
        wear; wore; tragen träg; getragen
        eat; ate; fressen friss; gefressen
        belong to; belonged to; gehören; gehört
        like; liked; gefallen gefäll; gefallen
        cost; cost; kosten; gekostet
        say; said; sagen; gesagt
        believe; believed; glauben; geglaubt
        hope; hoped; hoffen; gehofft
        know; knew; wissen; gewusst
        try; tried; versuchen; versucht
        promise; promised; versprechen versprich; versprochen
        decide; decided; beschließen; beschlossen
        become; became; werden; *geworden
    """,
}
